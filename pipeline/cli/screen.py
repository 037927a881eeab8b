"""What a person sees: tables, progress and messages. Nothing here knows what is due."""

import re
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from pipeline.cli.widths import fitted
from pipeline.domain import STATUSES
from pipeline.ids import RunId
from pipeline.operations.reading.reporting import BatchStatus, ExperimentStatus, RunStatus
from pipeline.operations.resuming import Headway
from pipeline.operations.workers.run import Notice
from pipeline.prices import told, told_briefly
from pipeline.wording import counted

people = Console(stderr=True, highlight=False, soft_wrap=True)
_MAYBE = "may be at the provider"
_WHERE = {
    "submitted": "at the provider", "running": "at the provider", "ended": "back, not yet read",
    "stored": "back, not yet read", "submitting": _MAYBE, "uncertain": _MAYBE,
    "held": "held",
}  # fmt: skip
_CANCELLING = "being cancelled"
_OVER = "ended at the provider without a file of answers"
_UNSHOWN = "answers that the provider may still show"
_LINES = 20  # how often it is said how far live calls are, where there is no terminal
_GONE = {*_WHERE, "cancelled"}
_json = msgspec.json.Encoder(decimal_format="number")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    """Return the text without control characters: others' words must not steer a terminal or turn its lines round."""
    return _CONTROL.sub("·", text)


def say(text: str) -> None:
    """Tell the person something."""
    people.print(Text(safe(text)))


def headline(text: str) -> None:
    """Tell the person the one thing to remember, broken between words."""
    people.print(Text(safe(text), style="bold"), soft_wrap=False)


def section(heading: str, text: str) -> None:
    """Show a text of somebody else's under a heading that sets it apart; a terminal breaks it between words."""
    people.rule(Text(heading, style="bold"), align="left")
    people.print(Text(safe(text)), soft_wrap=not people.is_terminal)


def complain(text: str, *, title: str = "error") -> None:
    """Tell the person what is wrong, in red where there is colour."""
    people.print(Text.assemble((f"{title}: ", "bold red"), safe(text)))


def place(out: str | Path) -> str:
    """Return how to name a file that is about to be written; its folder is told of if it will be made."""
    return str(out) if "://" in str(out) or Path(out).parent.exists() else f"{out} (a new folder)"


def number(value: float, digits: str = "+.2f") -> str:
    """Return the number without a sign where it shows as zero."""
    shown = f"{value:{digits}}"
    return shown if float(shown) else shown.lstrip("+-")


def print_json(value: object) -> None:
    """Print one JSON document for a program."""
    sys.stdout.write(msgspec.json.format(_json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()


def show(notice: Notice) -> None:
    """Show what a worker reports."""
    where = f"{notice.run_id} {notice.batch_id}" if notice.batch_id else notice.run_id
    people.print(Text.assemble((f"{where}  ", "dim"), (safe(notice.text), "yellow" if notice.warning else "")))


@contextmanager
def progress_of(planned: int, *, interval: float | None = None) -> Iterator["ProgressLine"]:
    """Show how many requests have ended while the block runs, and how often providers are asked, if they are."""
    columns = (
        SpinnerColumn(),
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=people, transient=True, disable=not people.is_terminal) as progress:
        yield ProgressLine(progress, planned, interval)


class ProgressLine:
    """Moves the bar when the headway changes; where there is no terminal, says in a line how far the runs are."""

    def __init__(self, progress: Progress, planned: int, interval: float | None = None) -> None:
        self._progress = progress
        self._every = f"; asks every {interval:g} s" if interval else ""
        self._bar = progress.add_task(f"requests{self._every}", total=planned)
        self._told: int | None = None
        self._waits: list[str] = []

    def __call__(self, headway: Headway) -> None:
        """Show how far the runs are, and what is waited for until when."""
        counts, waits = headway.counts, _awaited(headway)
        done = counts.ended + headway.answered
        description = waits[0] if waits else f"requests{self._every}"
        self._progress.update(self._bar, completed=done, total=counts.planned, description=description)
        if not self._progress.disable:
            return
        if self._told is None or done == counts.ended != self._told or done - self._told > counts.planned / _LINES:
            come = "an answer" if headway.answered else "ended"
            every = self._every if self._told is None and counts.open else ""
            say(f"{done:,} of {counted(counts.planned, 'request')} have {come}{every}")
            self._told = done
        for words in waits:
            if words not in self._waits:
                say(words)
        self._waits = waits


def _awaited(headway: Headway) -> list[str]:
    """Return what is waited for, in words: batches that may be there, files that may come, ends that were asked for."""
    quiet, files, cancelling = headway.quiet, headway.files, headway.cancelling
    found = [f"looks until {quiet:%H:%M:%S} UTC for what may be at the provider"] if quiet else []
    found += [f"waits until about {files:%H:%M:%S} UTC for {_UNSHOWN}"] if files else []
    return found + ([f"{counted(cancelling, 'request is', 'requests are')} being cancelled"] if cancelling else [])


def show_status(experiments: Iterable[ExperimentStatus], *, batches: bool = False) -> None:
    """Print the conservation table of each experiment, its batches if asked for, then what is worth a look."""
    for experiment in experiments:
        _show_conservation(experiment)
        if batches:
            _show_batches(experiment)
        _show_open(experiment)
        if experiment.cost:
            say(f"cost so far: {told(experiment.cost)}")
        for run in experiment.runs:
            _show_attention(run)


def _show_conservation(experiment: ExperimentStatus) -> None:
    names = ["planned", *STATUSES, "open"]
    shown = [name for name in names if experiment.counts.get(name) or name in {"planned", "ok", "open"}]
    lines = {
        run.run_id: [len(run.batches) + run.done, *(run.counts.get(name, 0) for name in shown), _unsent(run)]
        for run in experiment.runs
    }
    headings = ["batches", *shown, "unsent"]
    if not any(line[-1] for line in lines.values()):
        headings, lines = headings[:-1], {run_id: line[:-1] for run_id, line in lines.items()}
    show_runs(f"experiment {experiment.name}", headings, lines, costs=_cost_cells(experiment))


def _cost_cells(experiment: ExperimentStatus) -> dict[str, str] | None:
    """Return what stands in the column of costs, for each run and for all; None where nobody asked."""
    if not experiment.cost:
        return None
    cells = {str(run.run_id): run.cost for run in experiment.runs} | {"all": experiment.cost}
    return {name: told_briefly(cost) for name, cost in cells.items() if cost}


def _show_batches(experiment: ExperimentStatus) -> None:
    """Print a line for each batch; its ids can be copied whole."""
    headings = ["batch", "attempt", "requests", "phase", "at the provider"]
    for run in experiment.runs:
        told = [
            [batch.batch_id, str(batch.attempt), f"{batch.requests:,}", batch.phase, batch.remote_id or "–"]
            for batch in run.batches
        ]
        lines = [headings, *told]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        say(run.run_id)
        for *cells, last in lines:
            say(f"{_aligned(cells, widths[:-1])}   {last}")


def _unsent(run: RunStatus) -> int:
    """Return how many of the open requests are not at their provider, nor may be."""
    gone = sum(batch.requests for batch in run.batches if batch.phase in _GONE)
    return max(run.counts["open"] - gone, 0)


def _show_open(experiment: ExperimentStatus) -> None:
    """Say where the open requests are."""
    requests: dict[str, int] = {}
    files = [batch.files_until for run in experiment.runs for batch in run.batches if batch.files_until]
    for run in experiment.runs:
        for batch in run.batches:
            where = _where(batch)
            if where:
                requests[where] = requests.get(where, 0) + batch.requests
    unsent = sum(map(_unsent, experiment.runs))
    parts = [f"{count:,} {where}" for where, count in (*requests.items(), ("not sent yet", unsent)) if count]
    if experiment.counts["open"]:
        opened = counted(experiment.counts["open"], "request is", "requests are")
        say(f"{opened} open: {', '.join(parts)}")
    if _MAYBE in requests:
        say(f"`pairlog resume` looks for what {_MAYBE}, and sends it again only if it is not there")
    if files:
        say(
            f"`pairlog resume` waits until about {max(files):%H:%M:%S} UTC for {_UNSHOWN}, since they would be paid for"
        )


def _where(batch: BatchStatus) -> str | None:
    """Return where the requests of a batch are that left, None of one that did not or whose rows are there."""
    if batch.files_until:
        return _OVER
    return _CANCELLING if batch.cancelling else _WHERE.get(batch.phase)


def show_runs(
    title: str,
    headings: Sequence[str],
    lines: Mapping[RunId, Sequence[int]],
    *,
    costs: Mapping[str, str] | None = None,
) -> None:
    """Print numbers for each run, and their sums; with `costs` of each and of all, in words.

    A run's id can be copied whole: where the table is too narrow for it, it stands above its numbers.
    """
    sums = [sum(column) for column in zip(*lines.values(), strict=True)]
    shown = {str(run_id): [f"{number:,}" for number in line] for run_id, line in lines.items()}
    if len(lines) > 1:
        shown["all"] = [f"{number:,}" for number in sums]
    if costs is not None:
        headings = [*headings, "≈ USD"]
        shown = {name: [*line, costs[name]] for name, line in shown.items()}
    widths = [max(map(len, column)) for column in zip(headings, *shown.values(), strict=True)]
    if max(map(len, lines)) + sum(widths) + 3 * len(widths) + 4 <= people.width:
        table = ([name, *line] for name, line in shown.items())
        rows(title, ["run", *headings], table, right=1, edges={len(lines)})
        return
    headline(f"{title}\n{_aligned(headings, widths)}")
    for name, line in shown.items():
        say(f"{name}\n{_aligned(line, widths)}")


def _aligned(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "".join(f"   {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _show_attention(run: RunStatus) -> None:
    for batch in run.batches:
        if not isinstance(batch.attention, msgspec.UnsetType):
            title = "look" if batch.attention.needs_person else "waits"
            complain(f"{run.run_id} {batch.batch_id} {batch.phase}: {batch.attention.reason}", title=title)
            for remedy in batch.attention.remedies:
                say(f"      {remedy}")


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
    whole = [[safe(cell) for cell in line] for line in (headings, *lines)]
    first, *others = fitted(whole, right=right, room=people.width)
    for number, heading in enumerate(first):
        table.add_column(Text(heading), justify="right" if number >= right else "left", overflow="fold")
    for place, line in enumerate(others):
        if place in edges:
            table.add_section()
        table.add_row(*map(Text, line))
    people.print(table)
