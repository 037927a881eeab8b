"""Commands around a study: doctor, simulate, demo."""

import csv
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.app import StoreOption, app, worker_on
from pipeline.cli.screen import complain, people, rows, say
from pipeline.clock import SystemClock
from pipeline.errors import ConfigError
from pipeline.operations.examining import examine


@app.command()
def doctor(store: StoreOption = None) -> int:
    """Say whether keys, store and providers are in order.

    Which keys are set, whether the store refuses a second create, and whether each provider can be reached.
    """
    worker = worker_on(store)
    say("trying the store, and every provider that has a key; one that does not answer is tried for some 20 seconds")
    found = examine(worker)
    broken = [each for each in found if each.how == "broken"]
    lines = ([each.what, each.how, "see below" if each.how == "broken" else each.found] for each in found)
    rows("doctor", ["what", "", "found"], lines)
    for each in broken:
        complain(f"{each.what}: {each.found}", title="doctor")
    return 1 if broken else 0


@app.command()
def simulate(
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 picks a free port.")] = 8765,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For the judges' coin.")] = 0,
    qualities: Annotated[
        Path | None,
        typer.Option(
            "--qualities",
            metavar="FILE",
            help="CSV with the columns text (word for word) and quality; other texts: by their bytes.",
        ),
    ] = None,
    bias: Annotated[
        float, typer.Option("--bias", metavar="X", help="Logit added to whichever text stands first.")
    ] = 0.0,
    sharpness: Annotated[
        float, typer.Option("--sharpness", metavar="X", help="Scales the difference of two qualities.")
    ] = 1.0,
    tie_rate: Annotated[
        float, typer.Option("--tie-rate", metavar="SHARE", min=0.0, max=1.0, help="Share of ties where allowed.")
    ] = 0.0,
    latency: Annotated[
        float, typer.Option("--latency", metavar="SECONDS", min=0.0, help="How long a batch takes.")
    ] = 0.0,
    faults: Annotated[
        str,
        typer.Option(
            "--faults", metavar="LIST", help="What goes wrong, e.g. create.lost=1,expire.share=0.1; help lists all."
        ),
    ] = "",
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="Keep what was billed in this JSONL file.")
    ] = None,
) -> None:
    """Serve the provider simulator on 127.0.0.1 until interrupted.

    Its judges prefer the text of the higher hidden quality: that of --qualities, else one that follows from the text's
    bytes alone, the same in every run.
    """
    from pipeline.simulator import SimulatorSettings, environment, parse_faults, serve
    from pipeline.simulator.faults import listed

    if faults == "help":
        say(listed())
        return
    settings = SimulatorSettings(
        port=port,
        seed=seed,
        qualities=read_qualities(qualities) if qualities else {},
        bias=bias,
        sharpness=sharpness,
        tie_rate=tie_rate,
        latency_seconds=latency,
        faults=parse_faults(faults),
        ledger_path=str(ledger) if ledger else None,
    )

    def tell(url: str) -> None:
        if qualities is None:
            say("answers are made up, by the bytes of the texts; --qualities FILE says how good each text is")
        say("paste this into the terminal you work in; stop the simulator with Ctrl-C:")
        say("export " + " ".join(f"{name}={value}" for name, value in environment(url).items()))

    serve(settings, ready=tell)


def read_qualities(path: Path) -> dict[str, float]:
    """Return the hidden quality of each text of a CSV file with the columns text and quality."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, restval="")
            found = table.fieldnames or ()
            missing = [name for name in ("text", "quality") if name not in found]
            if missing:
                shown = ", ".join(found) or "none"
                raise ConfigError(f"{path} lacks the column {' and the column '.join(missing)}; its columns: {shown}")
            return {row["text"]: float(row["quality"]) for row in table}
    except OSError as error:
        raise ConfigError(f"--qualities {path}: cannot be read ({error.strerror})") from error
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{path} is not a CSV file with the columns text and quality: {error}") from error


@app.command()
def demo(
    store: Annotated[
        str | None,
        typer.Option("--store", metavar="URL", help="Where everything is kept; default a new temporary folder."),
    ] = None,
) -> int:
    """Run the bundled example on the simulator, end to end."""
    from pipeline.cli.demo import show_demo

    place = store or tempfile.mkdtemp(prefix="pairlog-demo-")
    people.print(f"[bold]pairlog demo[/bold]: 20 texts, 2 judges, both directions; everything is kept in {place}")
    return show_demo(place, clock=SystemClock())
