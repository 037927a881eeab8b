"""Commands that make samples of what other tools left behind."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pipeline.cli.app import JsonOption, app
from pipeline.cli.helping import Commands
from pipeline.cli.screen import complain, place, print_json, say
from pipeline.errors import ConfigError
from pipeline.operations.reading.files import write_bytes
from pipeline.operations.studies.speceval import read_speceval
from pipeline.wording import counted

import_app = Commands(name="import", help="Make samples of other tools' outputs.", no_args_is_help=True)
app.add_typer(import_app)


@import_app.callback()
def _group() -> None:
    """Make samples of other tools' outputs."""


@import_app.command()
def speceval(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Holds a folder for each candidate model.")],
    spec: Annotated[
        Path, typer.Option("--spec", metavar="SPEC.jsonl", help="The specification, one statement per line.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="SAMPLES.jsonl", help="Where the samples go: a path or URL.")],
    as_json: JsonOption = False,
) -> int:
    """Read SpecEval's layout: candidates by their folders' names, answers matched by the text of their input."""
    if not out.endswith(".jsonl"):
        raise ConfigError(f"--out {out}: samples are written as JSON lines; let the name end in .jsonl")
    found = read_speceval(folder, spec)
    where = place(out)
    write_bytes(out, msgspec.json.Encoder().encode_lines(found.samples))
    for note in found.notes:
        complain(note, title="note")
    if as_json:
        print_json({"samples": len(found.samples), "candidates": found.candidates, "notes": found.notes})
    answers, candidates = counted(len(found.samples), "answer"), counted(len(found.candidates), "candidate")
    say(f"{answers} of {candidates} in {where}: {', '.join(found.candidates)}")
    return 0
