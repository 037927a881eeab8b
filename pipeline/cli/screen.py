"""What a person sees: tables, progress and messages. Nothing here knows what is due."""

import re
import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pipeline.domain import STATUSES
from pipeline.operations.reporting import ExperimentStatus, RunStatus
from pipeline.operations.resuming import Standing
from pipeline.operations.worker import Notice

people = Console(stderr=True, highlight=False, soft_wrap=True)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def safe(text: str) -> str:
    """Return the text without control characters: a provider's words must not steer a terminal."""
    return _CONTROL.sub("·", text)


def say(text: str) -> None:
    """Tell the person something."""
    people.print(Text(safe(text)))


def headline(text: str) -> None:
    """Tell the person the one thing to remember, broken between words."""
    people.print(Text(safe(text), style="bold"), soft_wrap=False)


def complain(text: str, *, title: str = "error") -> None:
    """Tell the person what is wrong, in red where there is colour."""
    people.print(Text.assemble((f"{title}: ", "bold red"), safe(text)))


def print_json(value: object) -> None:
    """Print one JSON document for a program."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()


def show(notice: Notice) -> None:
    """Show what a worker reports."""
    where = f"{notice.run_id} {notice.batch_id}" if notice.batch_id else notice.run_id
    people.print(Text.assemble((f"{where}  ", "dim"), (safe(notice.text), "yellow" if notice.warning else "")))


@contextmanager
def progress_of(planned: int) -> Iterator["Watch"]:
    """Show how many requests have ended while the block runs."""
    columns = (
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=people, transient=True, disable=not people.is_terminal) as progress:
        yield Watch(progress, planned)


class Watch:
    """Moves the bar when the standing changes."""

    def __init__(self, progress: Progress, planned: int) -> None:
        self._progress = progress
        self._bar = progress.add_task("requests", total=planned)

    def __call__(self, standing: Standing) -> None:
        """Show how far the runs are."""
        counts = standing.counts
        self._progress.update(self._bar, completed=counts.ended, total=counts.planned)


def show_status(experiments: Iterable[ExperimentStatus]) -> None:
    """Print the conservation table of each experiment, then what needs a person."""
    for experiment in experiments:
        people.print(_conservation(experiment))
        for run in experiment.runs:
            _show_unsettled(run)


def _conservation(experiment: ExperimentStatus) -> Table:
    names = ["planned", *STATUSES, "open"]
    shown = [name for name in names if experiment.counts.get(name) or name in {"planned", "ok", "open"}]
    table = Table(title=f"experiment {experiment.name}", title_justify="left", title_style="bold")
    table.add_column("run", overflow="fold")
    table.add_column("batches", justify="right")
    for name in shown:
        table.add_column(name, justify="right")
    for run in experiment.runs:
        table.add_row(run.run_id, str(len(run.batches)), *(f"{run.counts.get(name, 0):,}" for name in shown))
    table.add_section()
    batches = sum(len(run.batches) for run in experiment.runs)
    table.add_row("all", str(batches), *(f"{experiment.counts[name]:,}" for name in shown), style="bold")
    return table


def _show_unsettled(run: RunStatus) -> None:
    for batch in run.batches:
        alarming = batch.note is not None and batch.phase in {"submitted", "running", "ended"}
        if alarming or batch.phase in {"held", "uncertain", "refused"}:
            note = f": {batch.note}" if batch.note else ""
            complain(f"{run.run_id} {batch.batch_id} {batch.phase}{note}", title="look")
        if batch.phase == "held":
            say(f"      pairlog adopt {run.run_id} {batch.batch_id} REMOTE_ID   if the provider has it")
            say(f"      pairlog void {run.run_id} {batch.batch_id}              if it does not")


def rows(
    title: str,
    headings: Iterable[str],
    lines: Iterable[Iterable[str]],
    *,
    right: int = 99,
    edges: Container[int] = (),
) -> None:
    """Print a plain table; columns from number `right` on are numbers, and a line stands above the rows in `edges`."""
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number >= right else "left", overflow="fold")
    for place, line in enumerate(lines):
        if place in edges:
            table.add_section()
        table.add_row(*(safe(cell) for cell in line))
    people.print(table)
