"""Commands that only read: status, events, results, audit, explain."""

import sys
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pipeline.cli.app import JsonOption, NamesArgument, StoreOption, app, chosen, named, worker_on
from pipeline.cli.screen import complain, place, print_json, safe, say, section, show_status
from pipeline.domain import Message
from pipeline.errors import ConfigError
from pipeline.events import AnyEvent, Commit
from pipeline.operations.reading.auditing import audit as audit_store
from pipeline.operations.reading.auditing import audit_ledger
from pipeline.operations.reading.explaining import explain as explain_request
from pipeline.operations.reading.reporting import ExperimentStatus, commits_of
from pipeline.operations.reading.reporting import status as store_status
from pipeline.operations.reading.results import export
from pipeline.wording import counted


@app.command()
def status(
    names: NamesArgument = None,
    as_json: JsonOption = False,
    batches: Annotated[bool, typer.Option("--batches", help="Every batch too.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="What it has cost so far, about.")] = False,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="As it was at this time.")] = None,
    store: StoreOption = None,
) -> None:
    """Show the conservation table per experiment and run (and batch)."""
    worker, moment = worker_on(store), _moment(as_of)
    found = store_status(worker, chosen(worker, names), as_of=moment, briefly=not (as_json or batches), costs=cost)
    if as_json:
        print_json(found)
    elif found.experiments:
        show_status((each for each in found.experiments if each.runs), batches=batches)
        for each in found.experiments:
            if not each.runs:
                say(f"{each.name} was not planned yet at {moment}")
        if moment is None and not any(each.counts["open"] for each in found.experiments):
            _tell_ended(found.experiments)
    else:
        say(f"there are no experiments in {named(worker)}")


def _tell_ended(experiments: Collection[ExperimentStatus]) -> None:
    """Say that nothing is left to do, in the words of `resume`."""
    planned, ok = (sum(each.counts[name] for each in experiments) for name in ("planned", "ok"))
    say(f"every request has ended: {ok:,} ok, {planned - ok:,} not")


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--as-of {text!r} is not a time; give one like 2026-11-16T09:30:00+00:00") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@app.command()
def events(
    run_id: Annotated[str, typer.Argument(metavar="RUN")],
    as_json: JsonOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on as new events arrive; with --json a line each.")
    ] = False,
    store: StoreOption = None,
) -> None:
    """Show the log of a run."""
    commits = commits_of(worker_on(store).run(run_id), follow=follow)
    if as_json and not follow:
        print_json(list(commits))
        return
    for commit in commits:
        _print_commit(commit, as_json=as_json)


def _print_commit(commit: Commit, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(msgspec.json.encode(commit).decode() + "\n")
        sys.stdout.flush()
        return
    moment = commit.at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    for event in commit.events:
        sys.stdout.write(f"{commit.seq:>5}  {moment}  {_sentence(event)}\n")


def _sentence(event: AnyEvent) -> str:
    fields = msgspec.to_builtins(event)
    kind = fields.pop("type")
    batch = fields.pop("batch_id", "")
    shown = {name: value for name, value in fields.items() if value not in (None, [], {}, ())}
    if "segments" in shown:
        shown["segments"] = len(shown["segments"])
    details = "  ".join(f"{name}={_short(value)}" for name, value in shown.items())
    return safe(f"{kind:<15} {batch:<8} {details}")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}…"


@app.command()
def results(
    name: Annotated[str, typer.Argument(metavar="EXPERIMENT")],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="A path or URL that ends in .parquet, .csv or .jsonl.")
    ],
    with_samples: Annotated[bool, typer.Option("--with-samples", help="Add the texts.")] = False,
    store: StoreOption = None,
) -> None:
    """Write the merged rows of an experiment to one file."""
    worker = worker_on(store)
    (experiment,) = chosen(worker, [name])
    where = place(out)
    written = export(worker, experiment, out=out, with_samples=with_samples)
    say(f"{counted(written, 'row')} in {where}")


@app.command()
def audit(
    names: NamesArgument = None,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="FILE", help="Also check a simulator's ledger.")
    ] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> int:
    """Check every invariant and every object's digest. Exits with 1 and names what is broken."""
    worker = worker_on(store)
    found = audit_store(worker, chosen(worker, names) if names else [])
    if ledger is not None:
        found = msgspec.structs.replace(found, findings=(*found.findings, *audit_ledger(worker, _read(ledger))))
    if as_json:
        print_json(found)
    for finding in found.findings:
        complain(
            f"{finding.key}: {finding.problem}" if finding.key not in finding.problem else finding.problem,
            title="broken",
        )
    if not found.objects and not found.findings and ledger is None:
        say(f"there is nothing to check in {named(worker)}")
        return 0
    if found.findings:
        complain(f"{counted(len(found.findings), 'finding')} in {counted(found.objects, 'object')}", title="audit")
        return 1
    compared = f"; what {ledger} says was billed agrees with them" if ledger is not None else ""
    checked = f"{counted(found.objects, 'object')} and {counted(found.requests, 'request')} checked"
    say(f"{checked}; nothing is broken{compared}")
    return 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--ledger {path}: cannot be read ({error.strerror})") from error


@app.command()
def explain(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID")],
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Go from a row back to its prompt, samples, batch and raw line."""
    found = explain_request(worker_on(store), request_id)
    if as_json:
        print_json(found)
        return
    messages, thoughts, content, raw = (found.pop(name) for name in ("messages", "thoughts", "content", "raw_output"))
    del found["raw_request"]
    width = max(map(len, found))
    for name, value in found.items():
        say(f"{name:<{width}}  {'–' if value is None else value}")
    for message in msgspec.convert(messages, list[Message]):
        section(message.role if message.role != "user" else "prompt", message.text)
    for heading, text in (("thoughts", thoughts), ("answer", content), ("raw line of the output", raw)):
        if text:
            section(heading, str(text))
    say("--json has the raw line of the request too")
