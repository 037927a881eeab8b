"""Studies in a notebook: open one by its name, look at its rows, counts, ranking, judges and report.

Here is only what a person at a notebook calls, and how it shows itself; the answers come from `operations`. Nothing is
written or sent: the store is opened to be read only, and no provider's key is known. Every call looks at the store
afresh, so that the next one tells what has arrived meanwhile.
"""

from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Literal, TypedDict, Unpack, get_args, get_type_hints

import msgspec
import pyarrow as pa

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, UnrankableError
from pipeline.ids import ExperimentName
from pipeline.operations.reading import answers, explaining, reporting, summaries
from pipeline.operations.reading.explaining import Explanation
from pipeline.operations.reading.reporting import ExperimentStatus
from pipeline.operations.reading.results import table_of
from pipeline.operations.workers.worker import Worker
from pipeline.prices import Spent, told
from pipeline.ranking import (
    Part,
    Ranking,
    RankingOptions,
    Unrankable,
    diagnostics_table,
    verdict,
    verdict_of_part,
)
from pipeline.ranking.columns import judge_labels
from pipeline.ranking.report.markup import Html, element, table
from pipeline.ranking.report.picture import ranking_svg
from pipeline.settings import Settings, from_environment
from pipeline.storage import open_store
from pipeline.storage.readonly import ReadOnlyStore
from pipeline.wording import counted, remedy

Per = Literal["judge", "template", "group", "criterion", "panel"]
_SHOWN = 20
_OF_PAGES = (".html", ".htm")
_SPENT = ("rows", "rows_without_tokens", "rows_without_price", "input_tokens", "cached_tokens", "output_tokens")
_KINDS = {bool: "True or False", int: "a whole number", float: "a number", NoneType: "None"}


class Options(TypedDict, total=False):
    """How to rank: the options of `pairlog rank`, by the same names and with the same defaults."""

    by: Literal["contestant", "sample"]
    method: Literal["bradley-terry", "elo", "win-rate"]
    ties: Literal["half", "davidson"]
    position: bool
    length: bool
    intervals: Literal["sandwich", "bootstrap"]
    cluster: Literal["auto", "pair", "group", "row"]
    regularisation: float | None
    confidence: float
    seed: int


def studies(store: str | Path | None = None) -> list[str]:
    """Return the names of the studies in the store: a path or URL; default $PAIRLOG_STORE or .pairlog."""
    reader = _reader(store)
    names = reader.experiment_names()
    if not names:
        raise ConfigError(f"there are no experiments in {_place(reader)}")
    return [str(name) for name in names]


def open_study(name: str, store: str | Path | None = None) -> "Study":
    """Return the study of this name in the store: a path or URL; default $PAIRLOG_STORE or .pairlog."""
    reader = _reader(store)
    (found,) = reporting.experiments_named(reader, [name], place=_place(reader))
    return Study(reader, found)


class Study:
    """One experiment, finished or not, as its store tells it now."""

    def __init__(self, reader: Worker, name: ExperimentName) -> None:
        self._reader = reader
        self.name = name

    @property
    def counts(self) -> dict[str, int]:
        """How the requests ended: planned = ok + unparsed + … + open."""
        return self._status().counts

    @property
    def judges(self) -> list[str]:
        """Who judges: provider/model, and the reasoning level if it is not the default."""
        return _judges(self._status())

    def status(self) -> pa.Table:
        """Return how the requests of each run ended, one row per run."""
        return _by_run(self._status())

    def cost(self) -> "StudyCost":
        """Return what the rows that are there have cost, as `pairlog status --cost` tells it; all of them are read."""
        found = reporting.status(self._reader, [self.name], briefly=True, costs=True).experiments[0]
        spent = Spent() if isinstance(found.cost, msgspec.UnsetType) else found.cost
        fields = {name: getattr(spent, name) for name in Spent.__struct_fields__}
        return StudyCost(**fields, table=_costs_by_run(found))

    def rows(self, columns: Sequence[str] | None = None, *, with_samples: bool = False) -> pa.Table:
        """Return one row for each request that has ended, as `pairlog results` has them; `columns` takes only some."""
        wanted = [columns] if isinstance(columns, str) else columns
        return table_of(self._reader, self.name, columns=wanted, with_samples=with_samples)

    def ranking(self, *, per: Per | None = None, **options: Unpack[Options]) -> "StudyRanking":
        """Return scores with intervals, best first; raises UnrankableError with the reason if there are none.

        Options and defaults are those of `pairlog rank`: by, method, ties, position, length, intervals, cluster,
        regularisation, confidence, seed. With `per` the table also ranks each judge, template, group or criterion
        alone, or all judges as a panel.
        """
        asked = _asked(per=per, **options)
        self._check_pairs()
        found = answers.ranked(self._reader, self.name, asked.options, length=asked.length, per=asked.per)
        if isinstance(found.whole, Unrankable):
            still = f"; {counted(found.counts.open, 'request is', 'requests are')} open" if found.counts.open else ""
            raise UnrankableError(f"there is no ranking of {self.name}: {found.whole.reason}{still}")
        fields = {name: getattr(found.whole, name) for name in Ranking.__struct_fields__}
        return StudyRanking(**fields, table=found.table, parts=found.parts, open=found.counts.open, doubts=found.doubts)

    def diagnostics(self) -> pa.Table:
        """Return what tells whether the judges can be trusted, one row per measure."""
        self._check_pairs()
        found = answers.answers_of(self._reader, self.name, RankingOptions())
        return diagnostics_table(found.found, panel=found.panel, experiment=self.name, basis=found.basis)

    def report(self, **options: Unpack[Options]) -> "Page":
        """Return the page of `pairlog report`; the options are those of `ranking`, without `per`."""
        asked = _asked(**options)
        if not summaries.is_pairwise(self._reader, self.name):
            return Page(summaries.report(self._reader, self.name))
        found = answers.answers_of(self._reader, self.name, asked.options, length=asked.length)
        return Page(answers.report(self._reader, self.name, found))

    def explain(self, request_id: str) -> Explanation:
        """Return where a request of this store came from and what became of it, down to prompt and raw line."""
        return explaining.explain(self._reader, request_id)

    def _status(self) -> ExperimentStatus:
        return reporting.status(self._reader, [self.name], briefly=True).experiments[0]

    def _check_pairs(self) -> None:
        if not summaries.is_pairwise(self._reader, self.name):
            task = self._reader.runs(self.name)[0].config.task
            raise UnrankableError(f"{self.name} is a {task} study and compares nothing; report() shows what it found")

    def __repr__(self) -> str:
        status = self._status()
        judges = f"judged by {', '.join(_judges(status))}"
        return f"Study {self.name} in {self._reader.store.url}\n{_ended(status)}\n{judges}"

    def _repr_html_(self) -> str:
        status = self._status()
        shown = [name for name, count in status.counts.items() if count]
        lines = [[run.run_id, *(f"{run.counts.get(name, 0):,}" for name in shown)] for run in status.runs]
        judges = element("p", f"{_ended(status)}; judged by {', '.join(_judges(status))}")
        return element("div", element("b", self.name), judges, table(["run", *shown], lines, caption="requests"))


class StudyCost(Spent, frozen=True, kw_only=True):
    """What a study has cost so far, in USD, that says itself in a sentence; `table` has a row for each run."""

    table: pa.Table

    def __repr__(self) -> str:
        return f"cost so far: {told(self)}"


class StudyRanking(Ranking, frozen=True, kw_only=True):
    """A ranking that shows itself, with the `parts` that `per` asked for.

    `table` holds it as rows; `open` is how many requests have not ended; `doubts` say which judges are hard to trust.
    """

    table: pa.Table
    parts: tuple[Part, ...]
    open: int
    doubts: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """What to know before quoting a score."""
        still = [f"provisional: {counted(self.open, 'request is', 'requests are')} open"] if self.open else []
        return [*still, *self.warnings, *(f"judges: {doubt}" for doubt in self.doubts)]

    def __repr__(self) -> str:
        width = max(len(each.contestant) for each in self.standings[:_SHOWN])
        lines = [
            f"{each.rank:>4}  {each.contestant:<{width}}  {each.score:8.3f}  {each.low:8.3f} … {each.high:.3f}"
            for each in self.standings[:_SHOWN]
        ]
        more = len(self.standings) - _SHOWN
        rest = [f"      {more:,} more: .standings and .table have all of them"] if more > 0 else []
        firsts = map(verdict_of_part, self.parts)
        return "\n".join([verdict(self, unfinished=self.open > 0), *lines, *rest, *firsts, *self.notes])

    def _repr_html_(self) -> str:
        notes = [element("p", note) for note in (*map(verdict_of_part, self.parts), *self.notes)]
        said = element("p", element("b", verdict(self, unfinished=self.open > 0)))
        return element("div", said, Html(ranking_svg(self)), *notes)


class Page:
    """A report that shows itself in a notebook and can be kept as a file."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str | Path) -> Path:
        """Write the page, which opens in any browser, and return where it is."""
        where = Path(path).expanduser().absolute()
        if where.is_dir():
            raise ConfigError(f"{where} is a folder; give the path of a file")
        if where.suffix not in _OF_PAGES:
            raise ConfigError(f"{where} cannot be written: the page is HTML; use {' or '.join(_OF_PAGES)}")
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_text(self.html, encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{where} cannot be written ({error.strerror}); give the path of a file") from error
        return where

    def __repr__(self) -> str:
        return f"Page of {len(self.html):,} characters; .save('report.html') keeps it"

    def _repr_html_(self) -> str:
        return element("iframe", srcdoc=self.html, sandbox="", style="width:100%;height:720px;border:0")


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    options: RankingOptions
    length: bool = False
    per: Per | None = None


def _asked(*, per: object = None, length: object = False, **options: object) -> _Asked:
    kinds = {**get_type_hints(Options), "per": Per | None}
    for name, value in {**options, "length": length, "per": per}.items():
        if name not in kinds:
            raise ConfigError(f"a ranking has no option {name}; {remedy(name, kinds)}")
        try:
            msgspec.convert(value, kinds[name])
        except msgspec.ValidationError as error:
            raise ConfigError(f"a ranking with {name}={value!r} cannot be made; give {_taken(kinds[name])}") from error
    return msgspec.convert({"options": options, "length": length, "per": per}, _Asked)


def _taken(kind: object) -> str:
    """Return what an option of this type takes, as one writes it in Python."""
    if parts := get_args(kind):
        return " or ".join(_taken(part) for part in parts)
    return _KINDS[kind] if isinstance(kind, type) else repr(kind)


def _reader(store: str | Path | None) -> Worker:
    opened = open_store(str(store or from_environment().store()))
    return Worker(ReadOnlyStore(opened), clock=SystemClock(), settings=Settings({}))


def _place(reader: Worker) -> str:
    return f"{reader.store.url} (store=… or PAIRLOG_STORE names another store)"


def _by_run(status: ExperimentStatus) -> pa.Table:
    counts = {name: pa.array([run.counts.get(name, 0) for run in status.runs], pa.int64()) for name in status.counts}
    return pa.table(_names_of_runs(status) | counts)


def _names_of_runs(status: ExperimentStatus) -> dict[str, pa.StringArray]:
    names = ("run_id", "provider", "model", "reasoning", "direction")
    return {name: pa.array([getattr(run, name) for run in status.runs], pa.string()) for name in names}


def _costs_by_run(status: ExperimentStatus) -> pa.Table:
    """Return what the rows of each run have cost, null where no price is known, and the tokens that tell it."""
    spent = [Spent() if isinstance(run.cost, msgspec.UnsetType) else run.cost for run in status.runs]
    usd = pa.array([float(each.usd) if each.is_priced else None for each in spent], pa.float64())
    counts = {name: pa.array([getattr(each, name) for each in spent], pa.int64()) for name in _SPENT}
    return pa.table({**_names_of_runs(status), "usd": usd, **counts})


def _judges(status: ExperimentStatus) -> list[str]:
    return [str(name) for name in judge_labels(_by_run(status)).unique().to_pylist()]


def _ended(status: ExperimentStatus) -> str:
    parts = [f"{count:,} {name}" for name, count in status.counts.items() if count and name != "planned"]
    return f"{counted(status.counts['planned'], 'request')}: {', '.join(parts)}"
