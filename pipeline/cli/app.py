"""The commands' frame: the program itself and the options many commands share."""

from contextlib import ExitStack
from decimal import Decimal, InvalidOperation
from importlib.metadata import version
from typing import Annotated

import typer
from typer.core import TyperGroup

from pipeline.cli.helping import Commands
from pipeline.cli.screen import show
from pipeline.clock import SystemClock
from pipeline.ids import ExperimentName
from pipeline.operations.reading.reporting import experiments_named
from pipeline.operations.studies.whereabouts import store_near
from pipeline.operations.workers.worker import AT_ONCE, Worker
from pipeline.settings import from_environment
from pipeline.storage import open_store

IN_ORDER_OF_USE = (
    "plan", "submit", "status", "resume", "run", "results", "rank", "report", "explain", "events", "cancel", "adopt",
    "void", "audit", "doctor", "import", "store", "simulate", "demo",
)  # fmt: skip


class _InOrderOfUse(TyperGroup):
    """Lists the commands as a study needs them."""

    def list_commands(self, ctx: object) -> list[str]:  # noqa: ARG002 - the library calls it so
        """Return the names of the commands, the first one first."""
        return sorted(self.commands, key=IN_ORDER_OF_USE.index)


def _leave(code: int | None, **_: object) -> None:
    """Make a command's number its exit code."""
    raise typer.Exit(code or 0)


app = Commands(
    name="pairlog",
    cls=_InOrderOfUse,
    context_settings={"help_option_names": ["-h", "--help"]},
    result_callback=_leave,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pairlog {version('pairlog')}")
        raise typer.Exit


@app.callback()
def _program(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Very large pairwise LLM-judge studies through the providers' Batch APIs."""


StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where everything is kept: a path or URL; default $PAIRLOG_STORE or .pairlog.",
    ),
]
_LONGEST_INTERVAL = 7 * 24 * 3600.0


def _bounded(seconds: float) -> float:
    if not 0 <= seconds <= _LONGEST_INTERVAL:
        raise typer.BadParameter(f"{seconds:g} is not between 0 and {_LONGEST_INTERVAL:.0f} seconds, a week.")
    return seconds


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
IntervalOption = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", callback=_bounded, help="Between two polls.")
]
MostOption = Annotated[
    int | None,
    typer.Option("--most-requests", metavar="N", min=0, help="Send nothing if it would be more requests than this."),
]


def _dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text.removeprefix("$"))
    except InvalidOperation as error:
        raise typer.BadParameter(f"{text!r} is not an amount in USD, such as 12.50.") from error
    if not amount.is_finite() or amount < 0:
        raise typer.BadParameter(f"{text!r} is not an amount in USD, such as 12.50.")
    return amount


MostCostOption = Annotated[
    Decimal | None,
    typer.Option("--most-cost", metavar="USD", parser=_dollars, help="Send nothing if it may cost more than this."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Exit 1 if any request did not end as ok.")]
FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The experiment file.")]
NamesArgument = Annotated[list[str] | None, typer.Argument(metavar="EXPERIMENT", help="Default: all.")]


_workers = ExitStack()


def worker_on(store: str | None) -> Worker:
    """Return a worker on the store that was named, in the call or the environment."""
    settings = from_environment()
    place = open_store(store or settings.store())
    worker = Worker(place, clock=SystemClock(), settings=settings, notify=show, at_once=AT_ONCE)
    return _workers.enter_context(worker)


def close_workers() -> None:
    """Close the connections of every worker that a command used."""
    _workers.close()


RESUMABLE = "interrupted; nothing is lost: `pairlog resume` continues from here"
_left = ["interrupted"]


def if_interrupted(words: str) -> None:
    """Keep what to say if the command is interrupted from here on: what it leaves, and how to go on."""
    _left[0] = words


def when_interrupted() -> str:
    """Return what the command would say now that it was interrupted."""
    return _left[0]


def named(worker: Worker) -> str:
    """Return where the worker's store is and how to name another one, for whoever finds nothing in it."""
    near = store_near(worker.store.url)
    way = f"--store {near} names one near by" if near else "--store or PAIRLOG_STORE names another store"
    return f"{worker.store.url} ({way})"


def chosen(worker: Worker, names: list[str] | None) -> list[ExperimentName]:
    """Return the experiments that were named, or all; raises ConfigError for one that is not there."""
    return experiments_named(worker, names, place=named(worker)) if names else worker.experiment_names()


from pipeline.cli import answering, deciding, importing, planned, reading, storing, studying, tools  # noqa: E402, F401 - the modules add their commands to the app
