"""What `rank` and `report` do; a module of its own because its imports are heavy and other commands need none."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.cli.app import chosen, worker_on
from pipeline.cli.screen import complain, headline, number, place, print_json, rows, say
from pipeline.domain import Counts
from pipeline.errors import ConfigError, StoreError
from pipeline.ids import ExperimentName
from pipeline.operations.reading import answers, summaries
from pipeline.operations.reading.absences import absent_in
from pipeline.operations.reading.answers import Ranked
from pipeline.operations.reading.files import ending, write_bytes, write_table
from pipeline.operations.reading.imported import answers_of_file, ranked_in_file, report_of_file
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import Ranking, RankingOptions, Unrankable, verdict, verdict_of_part
from pipeline.ranking.values import left
from pipeline.wording import counted

_SHOWN = 100
_COLUMNS = 6


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be ranked, and how: experiments in a store, all together, or a file of judged pairs."""

    names: tuple[str, ...]
    source: Path | None
    store: str | None
    options: RankingOptions
    length: bool = False

    @property
    def title(self) -> str:
        """What the answer is about."""
        if bool(self.names) == (self.source is not None):
            both = f"{' '.join(self.names)} and --from {self.source} are both given; " if self.names else ""
            raise ConfigError(f"{both}say what to rank: an EXPERIMENT, or --from FILE, one of them")
        return " + ".join(dict.fromkeys(self.names)) or Path(str(self.source)).stem


def show_ranking(question: Question, *, per: str | None, as_json: bool, out: str | None) -> int:
    """Rank, show or write the ranking, and return the exit code."""
    ranked = _ranked(question, per)
    found = ranked.whole
    if out is not None and (isinstance(found, Ranking) or ranked.parts):
        _write(out, ranked)
    if isinstance(found, Unrankable):
        if as_json:
            print_json(_no_document(ranked, found))
        _say_if_open(ranked.counts)
        _show_firsts(ranked)
        complain(found.reason, title="no ranking")
        return 1
    if as_json:
        print_json(_document(ranked, found))
    elif out is None:
        _show(ranked, found)
    tell_notes(found)
    if ranked.doubts:
        named_so = f"--from {question.source}" if question.source else " ".join(question.names[:1])
        tell_doubts(ranked.doubts, f"pairlog report {named_so}")
    _say_if_open(ranked.counts)
    return _say_if_left(found)


def tell_notes(found: Ranking) -> None:
    """Say what a reader of the ranking must know: its warnings, and which rows do not count in it.

    Who could not be ranked is said at the end, with the exit code.
    """
    for warning in found.warnings:
        if not found.unranked or warning != left(found.unranked):
            complain(warning, title="note")
    left_out = sum(found.excluded.values())
    if left_out:
        of_all = counted(found.comparisons + left_out, "row does", "rows do")
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.excluded.items())
        complain(f"{left_out:,} of {of_all} not count: {reasons}", title="note")


def tell_doubts(doubts: Sequence[str], command: str) -> None:
    """Say in one line that there is something about the judges, and which command shows it all."""
    more = f" (the first of {len(doubts):,} judges with a fault)" if len(doubts) > 1 else ""
    complain(f"{doubts[0]}{more}; `{command}` shows whether the judges can be trusted", title="judges")


def write_report(question: Question, *, out: str) -> int:
    """Write the report and return the exit code."""
    title = question.title
    ending(out, ".html", ".htm")
    if question.source is not None:
        _refuse_length(question)
        found = answers_of_file(question.source, question.options)
        _write_page(report_of_file(question.source, found), out)
        return _concluded(found.ranking)
    worker = worker_on(question.store)
    (experiment,) = chosen(worker, [title])
    _say_if_open(sum(answers.conservation(worker, experiment).values(), Counts()))
    for absent in absent_in(worker, experiment):
        complain(str(absent), title="note")
    if not summaries.is_pairwise(worker, experiment):
        return _write_summary(worker, experiment, out)
    found = answers.answers_of(worker, experiment, question.options, length=question.length)
    _write_page(answers.report(worker, experiment, found), out)
    if question.options == RankingOptions() and not question.length:
        with _best_effort():
            stored = answers.store_answers(worker, experiment, found)
            say(f"the ranking as a table: {worker.store.url}/{stored.ranking}")
            say(f"the judges as a table: {worker.store.url}/{stored.diagnostics}")
    return _concluded(found.ranking)


def _write_summary(worker: Worker, experiment: ExperimentName, out: str) -> int:
    """Write the report of an experiment that compares nothing, show what it found, and return the exit code."""
    _write_page(summaries.report(worker, experiment), out)
    with _best_effort():
        say(f"kept in the store: {worker.store.url}/{summaries.store_report(worker, experiment)}")
    summary = summaries.summary(worker, experiment)
    if not summary.lines:
        complain(_nothing_read(answers.conservation(worker, experiment).values()), title="nothing to report")
        return 1
    rows(f"what {experiment} found", summary.headings, summary.lines, right=2)
    return 0


@contextmanager
def _best_effort() -> Iterator[None]:
    """Keep a copy where that is possible: who may only read the store has the page all the same."""
    try:
        yield
    except StoreError as error:
        complain(str(error), title="not kept in the store")


def _nothing_read(counts: Iterable[Counts]) -> str:
    """Return why an experiment that compares nothing found nothing."""
    total = sum(counts, Counts())
    ended = [f"{number:,} {name}" for name, number in total.as_dict().items() if number and name != "planned"]
    return f"no answer of {counted(total.planned, 'request')} could be read ({', '.join(ended)}): nothing can be said"


def _write_page(page: str, out: str) -> None:
    where = place(out)
    write_bytes(out, page.encode())
    say(f"open {where} in any browser")


def _concluded(ranking: Ranking | Unrankable) -> int:
    """Say what the page lacks, and return the exit code."""
    if isinstance(ranking, Unrankable):
        complain(ranking.reason, title="no ranking")
        return 1
    return _say_if_left(ranking)


def _ranked(question: Question, per: str | None) -> Ranked:
    title = question.title
    if question.source is not None:
        _refuse_length(question)
        return ranked_in_file(question.source, question.options, title=title, per=per)
    worker = worker_on(question.store)
    name, *beside = chosen(worker, list(dict.fromkeys(question.names)))
    return answers.ranked(worker, name, question.options, length=question.length, per=per, beside=beside)


def _refuse_length(question: Question) -> None:
    """Refuse to count with the length of texts where there are none."""
    if question.length:
        raise ConfigError("--length needs the texts: it works with an EXPERIMENT, not with --from FILE")


def _document(ranked: Ranked, found: Ranking) -> dict[str, object]:
    return {
        "experiment": ranked.title,
        "contestants": [msgspec.to_builtins(standing) for standing in found.standings],
        "comparisons": found.comparisons,
        "open": ranked.counts.open,
        "reliability": found.reliability,
        "separation": found.separation,
        "effects": [msgspec.to_builtins(effect) for effect in found.effects],
        "unranked": found.unranked,
        "warnings": found.warnings,
        "parts": _parts(ranked).to_pylist(),
    }


def _no_document(ranked: Ranked, found: Unrankable) -> dict[str, object]:
    """Return what is known where there is no ranking: why, how much is open, and the parts that have one."""
    return {
        "experiment": ranked.title,
        "contestants": [],
        "reason": found.reason,
        "open": ranked.counts.open,
        "parts": _parts(ranked).to_pylist(),
    }


def _parts(ranked: Ranked) -> pa.Table:
    return ranked.table.filter(pc.field("dimension") != "all")


def _write(out: str, ranked: Ranked) -> None:
    """Write the ranking; where the whole has none, a table of the parts."""
    where, found = place(out), ranked.whole
    kinds = (".parquet", ".csv", ".json") if isinstance(found, Ranking) else (".parquet", ".csv")
    if ending(out, *kinds) == ".json" and isinstance(found, Ranking):
        write_bytes(out, msgspec.json.encode(_document(ranked, found)))
    else:
        write_table(out, ranked.table.schema, ranked.table.to_batches())
    say(f"{counted(len(set(ranked.table['contestant'].to_pylist())), 'contestant')} in {where}")


def _say_if_open(counts: Counts) -> None:
    if counts.open:
        complain(
            f"{counts.ended:,} of {counted(counts.planned, 'request')} have ended; the rest is open",
            title="provisional",
        )


def _say_if_left(found: Ranking) -> int:
    """Say who could not be ranked, and return the exit code."""
    if found.unranked:
        complain(left(found.unranked), title="left")
    return 1 if found.unranked else 0


def _show(ranked: Ranked, found: Ranking) -> None:
    """Print the verdict, the ranking with a line between tiers, and the parts that were asked for."""
    shown = found.standings[:_SHOWN]
    digits = {"bradley-terry": "+.2f", "elo": ".0f", "win-rate": ".3f"}[found.options.method]
    lines = [
        [
            str(each.rank),
            each.contestant if each.bounded else f"{each.contestant} *",
            number(each.score, digits),
            f"{number(each.low, digits)} … {number(each.high, digits)}",
            str(each.place_low) if each.place_low == each.place_high else f"{each.place_low}–{each.place_high}",
            f"{each.wins:,}",
            f"{each.losses:,}",
            f"{each.ties:,}",
        ]
        for each in shown
    ]
    headings = ["", "contestant", "score", f"{found.options.confidence:.0%}".replace("%", " %"), "places"]
    edges = [at for at in range(1, len(shown)) if shown[at].tier != shown[at - 1].tier]
    headline(verdict(found, unfinished=ranked.counts.open > 0))
    rows(f"ranking of {ranked.title}", [*headings, "won", "lost", "tied"], lines, right=2, edges=edges)
    if len(found.standings) > _SHOWN:
        say(f"{len(found.standings) - _SHOWN:,} more: --json and --out FILE have all of them")
    if any(not each.bounded for each in shown):
        say("* only won or only lost, alone or as a set: the data put no limit on how far out the score lies")
    share = "" if found.reliability is None else f"; reliability {found.reliability:.2f}"
    say(f"{counted(found.comparisons, 'comparison')}; {counted(len(found.tiers), 'tier')}{share}")
    for effect in found.effects:
        say(f"{effect.name}: {effect.value:+.2f} ({effect.low:+.2f} … {effect.high:+.2f})")
    _show_parts(ranked, found)


def _show_parts(ranked: Ranked, found: Ranking) -> None:
    """Print the ranks in each part beside those in the whole; many parts as a list."""
    by_part: dict[str, dict[str, int]] = {}
    for row in _parts(ranked).to_pylist():
        by_part.setdefault(row["value"], {})[row["contestant"]] = row["rank"]
    if by_part and len(by_part) <= _COLUMNS:
        lines: list[Iterable[str]] = [
            [str(each.rank), each.contestant, *(str(of.get(each.contestant, "–")) for of in by_part.values())]
            for each in found.standings[:_SHOWN]
        ]
        rows("ranks", ["all", "contestant", *by_part], lines, right=2)
    _show_firsts(ranked)


def _show_firsts(ranked: Ranked) -> None:
    """Print who is first in each part."""
    for part in ranked.parts:
        say(verdict_of_part(part))
