"""A comparisons table as arrays of small whole numbers: what counts, and what was left out and why.

Only rows with status ok and an outcome count. Nothing here fits or judges.
"""

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import ConfigError

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Halves = npt.NDArray[np.int8]

_NEEDED = ("first_id", "second_id", "status", "outcome")
_FACTORS = ("pair", "group", "judge", "template", "first_sample", "second_sample", "criterion")
_HALVES = {"first": 2, "tie": 1, "second": 0}


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """A column of labels as codes into a sorted list of the labels."""

    labels: tuple[str, ...]
    codes: Ints

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Factor":
        """Return the factor of some rows, with the same labels."""
        return Factor(labels=self.labels, codes=self.codes[rows])


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """The comparisons that count, one entry a row; `halves` are the first one's points: 2, for a tie 1, else 0."""

    contestants: tuple[str, ...]
    first: Ints
    second: Ints
    halves: Halves
    pair: Factor
    group: Factor
    judge: Factor
    template: Factor
    first_sample: Factor
    second_sample: Factor
    criterion: Factor
    excluded: dict[str, int]
    unranked: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.halves)

    @property
    def turned(self) -> npt.NDArray[np.bool_]:
        """Whether a row shows its pair in the order opposite to that of the sample ids."""
        return np.asarray(self.first_sample.codes > self.second_sample.codes)

    @property
    def leaning(self) -> npt.NDArray[np.int8]:
        """1 where the sample with the lower id won, -1 where the other did, 0 for a tie."""
        toward_first = self.halves - np.int8(1)
        return np.where(self.turned, -toward_first, toward_first)

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Comparisons":
        """Return some of the comparisons; contestants they do not name are gone."""
        first, second = self.first[rows], self.second[rows]
        seen = np.zeros(len(self.contestants), dtype=bool)
        seen[first] = seen[second] = True
        renumbered = (np.cumsum(seen) - 1).astype(np.int32)
        factors = {name: getattr(self, name).take(rows) for name in _FACTORS}
        return Comparisons(
            contestants=tuple(label for label, used in zip(self.contestants, seen, strict=True) if used),
            first=renumbered[first],
            second=renumbered[second],
            halves=self.halves[rows],
            excluded={},
            **factors,
        )


def factor(column: pa.ChunkedArray) -> Factor:
    """Return the column's codes and its sorted labels; null is the empty label."""
    encoded = _plain(column).dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = (
            encoded.chunk(0)
            if encoded.num_chunks
            else pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.string()))
        )
    order = pc.array_sort_indices(encoded.dictionary)
    places = np.empty(len(order), dtype=np.int32)
    places[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    codes = places[encoded.indices.to_numpy(zero_copy_only=False)] if len(order) else np.empty(0, np.int32)
    return Factor(labels=tuple(encoded.dictionary.take(order).to_pylist()), codes=codes)


def judge_labels(table: pa.Table) -> pa.ChunkedArray:
    """Return one name for each row's judge: provider/model, and the reasoning level if it is not the default."""
    if "model" not in table.column_names:
        return _constant(table, "judge")
    provider, model = _text(table, "provider"), _text(table, "model")
    reasoning = _text(table, "reasoning")
    plain = pc.or_(pc.equal(reasoning, ""), pc.equal(reasoning, "default"))
    ending = pc.if_else(plain, "", pc.binary_join_element_wise(" (", reasoning, ")", ""))
    start = pc.if_else(pc.equal(provider, ""), "", pc.binary_join_element_wise(provider, "/", ""))
    return pc.binary_join_element_wise(start, model, ending, "")


def column(table: pa.Table, name: str) -> Factor:
    """Return a column's factor, one empty label where the table has no such column."""
    return factor(_text(table, name))


def read(table: pa.Table, *, by: str = "contestant") -> Comparisons:
    """Return the comparisons that count, with what is ranked taken from the contestants or from the samples."""
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise ConfigError(f"the comparisons have no column {missing[0]}: they have {', '.join(table.column_names)}")
    everyone = _sides(table, by)
    kept, excluded = _countable(table, everyone)
    good = table.filter(pa.array(kept))
    count = len(table)
    first, second = everyone.codes[:count][kept], everyone.codes[count:][kept]
    seen = np.zeros(len(everyone.labels), dtype=bool)
    seen[first] = seen[second] = True
    renumbered = (np.cumsum(seen) - 1).astype(np.int32)
    samples = factor(pa.chunked_array([*_text(good, "first_id").chunks, *_text(good, "second_id").chunks], pa.string()))
    return Comparisons(
        contestants=tuple(label for label, used in zip(everyone.labels, seen, strict=True) if used),
        first=renumbered[first],
        second=renumbered[second],
        halves=_halves(good),
        pair=_pairs(good),
        group=column(good, "group"),
        judge=factor(judge_labels(good)),
        template=column(good, "template"),
        criterion=column(good, "criterion"),
        first_sample=Factor(labels=samples.labels, codes=samples.codes[: len(good)]),
        second_sample=Factor(labels=samples.labels, codes=samples.codes[len(good) :]),
        excluded=excluded,
        unranked=tuple(label for label, used in zip(everyone.labels, seen, strict=True) if not used),
    )


def _sides(table: pa.Table, by: str) -> Factor:
    """Return the factor of both sides' names, all first ones before all second ones."""
    names = ("first_contestant", "second_contestant")
    if by == "sample" or any(name not in table.column_names for name in names):
        names = ("first_id", "second_id")
    sides = [_plain(table[name]) for name in names]
    fallback = [_plain(table[name]) for name in ("first_id", "second_id")]
    filled = [pc.if_else(pc.equal(side, ""), own, side) for side, own in zip(sides, fallback, strict=True)]
    return factor(pa.chunked_array([*filled[0].chunks, *filled[1].chunks], pa.string()))


def _countable(table: pa.Table, sides: Factor) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which rows count and how many do not, by reason."""
    status, outcome = column(table, "status"), _text(table, "outcome")
    known = pc.is_in(outcome, value_set=pa.array(list(_HALVES))).to_numpy()
    answered = np.array([label == "ok" for label in status.labels], dtype=bool)[status.codes]
    same = sides.codes[: len(table)] == sides.codes[len(table) :]
    excluded = {
        label: int(np.count_nonzero(status.codes == code)) for code, label in enumerate(status.labels) if label != "ok"
    }
    excluded["ok without an outcome"] = int(np.count_nonzero(answered & ~known))
    excluded["contestant against itself"] = int(np.count_nonzero(answered & known & same))
    return answered & known & ~same, {reason: count for reason, count in excluded.items() if count}


def _halves(table: pa.Table) -> Halves:
    outcome = column(table, "outcome")
    values = np.array([_HALVES[label] for label in outcome.labels], dtype=np.int8)
    return values[outcome.codes]


def _pairs(table: pa.Table) -> Factor:
    """Return the pairs as the table names them, or as its two sample ids, whichever way round."""
    if "pair_id" in table.column_names:
        return column(table, "pair_id")
    one, other = _text(table, "first_id"), _text(table, "second_id")
    swap = pc.greater(one, other)
    low, high = pc.if_else(swap, other, one), pc.if_else(swap, one, other)
    length = pc.cast(pc.binary_length(low), pa.string())
    return factor(pc.binary_join_element_wise(length, low, high, ":"))


def _text(table: pa.Table, name: str) -> pa.ChunkedArray:
    return _plain(table[name]) if name in table.column_names else _constant(table, "")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column as plain strings without nulls."""
    return pc.fill_null(pc.cast(column, pa.string()), "")


def _constant(table: pa.Table, value: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.repeat(pa.scalar(value), len(table))])
