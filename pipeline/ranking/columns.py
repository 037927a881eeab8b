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
_JUDGE = ("provider", "model", "reasoning")
_READ = (*_NEEDED, *_JUDGE, "first_contestant", "second_contestant", "pair_id", "group", "template", "criterion")
_FACTORS = ("pair", "group", "judge", "template", "first_sample", "second_sample", "criterion")
_HALVES = {"first": 2, "tie": 1, "second": 0}


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """A column of labels as codes into the sorted labels, which are a column too: pairs have a million of them."""

    names: pa.StringArray
    codes: Ints

    @property
    def count(self) -> int:
        """How many labels there are."""
        return len(self.names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, made anew each time."""
        return tuple(self.names.to_pylist())

    def take(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> "Factor":
        """Return the factor of some rows, with the same labels."""
        return Factor(names=self.names, codes=self.codes[rows])


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
    """Return the column's codes and its sorted labels, those that occur; null is the empty label."""
    if not len(column):
        return Factor(names=pa.array([], pa.string()), codes=np.empty(0, np.int32))
    encoded = _coded(column)
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(encoded.dictionary), dtype=bool)
    occurs[codes] = True
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    order = order[occurs[order]]
    places = np.empty(len(occurs), dtype=np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    return Factor(names=encoded.dictionary.take(pa.array(order)), codes=places[codes])


def _coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return the texts as codes, in one piece; not all of the labels need occur."""
    has_codes = pa.types.is_dictionary(column.type) and not column.null_count
    coded = column.unify_dictionaries() if has_codes else _plain(column).dictionary_encode()
    whole = coded.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def judge_labels(table: pa.Table) -> pa.ChunkedArray:
    """Return one name for each row's judge: provider/model, and the reasoning level if it is not the default."""
    found = judges(table)
    return pa.chunked_array([found.names.take(pa.array(found.codes))])


def judges(table: pa.Table) -> Factor:
    """Return the factor of the rows' judges, by their names."""
    if "model" not in table.column_names:
        return factor(_constant(table, "judge"))
    parts = [column(table, name) for name in _JUDGE]
    shape = tuple(max(part.count, 1) for part in parts)
    mixed = np.ravel_multi_index(tuple(part.codes for part in parts), shape)
    occurs = np.zeros(np.prod(shape), dtype=bool)
    occurs[mixed] = True
    of = np.unravel_index(np.flatnonzero(occurs), shape)
    each = [part.names.take(pa.array(codes)) for part, codes in zip(parts, of, strict=True)]
    named = factor(pa.chunked_array([_judge_names(*each)]))
    return Factor(names=named.names, codes=named.codes[(np.cumsum(occurs) - 1)[mixed]])


def _judge_names(provider: pa.StringArray, model: pa.StringArray, reasoning: pa.StringArray) -> pa.StringArray:
    plain = pc.or_(pc.equal(reasoning, ""), pc.equal(reasoning, "default"))
    ending = pc.if_else(plain, "", pc.binary_join_element_wise(" (", reasoning, ")", ""))
    start = pc.if_else(pc.equal(provider, ""), "", pc.binary_join_element_wise(provider, "/", ""))
    return pc.binary_join_element_wise(start, model, ending, "")


def column(table: pa.Table, name: str) -> Factor:
    """Return a column's factor, one empty label where the table has no such column."""
    return factor(table[name] if name in table.column_names else _constant(table, ""))


def read(table: pa.Table, *, by: str = "contestant") -> Comparisons:
    """Return the comparisons that count, with what is ranked taken from the contestants or from the samples."""
    missing = [name for name in _NEEDED if name not in table.column_names]
    if missing:
        raise ConfigError(f"the comparisons have no column {missing[0]}: they have {', '.join(table.column_names)}")
    looked_at = table.select([name for name in _READ if name in table.column_names])
    everyone = _sides(looked_at, by)
    kept, excluded = _countable(looked_at, everyone)
    good = looked_at.filter(pa.array(kept))
    count = len(table)
    first, second = everyone.codes[:count][kept], everyone.codes[count:][kept]
    seen = np.zeros(len(everyone.labels), dtype=bool)
    seen[first] = seen[second] = True
    renumbered = (np.cumsum(seen) - 1).astype(np.int32)
    samples = factor(_joined(good["first_id"], good["second_id"]))
    return Comparisons(
        contestants=tuple(label for label, used in zip(everyone.labels, seen, strict=True) if used),
        first=renumbered[first],
        second=renumbered[second],
        halves=_halves(good),
        pair=_pairs(good),
        group=column(good, "group"),
        judge=judges(good),
        template=column(good, "template"),
        criterion=column(good, "criterion"),
        first_sample=Factor(names=samples.names, codes=samples.codes[: len(good)]),
        second_sample=Factor(names=samples.names, codes=samples.codes[len(good) :]),
        excluded=excluded,
        unranked=tuple(label for label, used in zip(everyone.labels, seen, strict=True) if not used),
    )


def _sides(table: pa.Table, by: str) -> Factor:
    """Return the factor of both sides' names, all first ones before all second ones."""
    names = ("first_contestant", "second_contestant")
    if by == "sample" or any(name not in table.column_names for name in names):
        names = ("first_id", "second_id")
    everyone = factor(_joined(*(table[name] for name in names)))
    if not everyone.count or everyone.names[0].as_py():
        return everyone
    sides = [_plain(table[name]) for name in names]
    fallback = [_plain(table[name]) for name in ("first_id", "second_id")]
    filled = [pc.if_else(pc.equal(side, ""), own, side) for side, own in zip(sides, fallback, strict=True)]
    return factor(_joined(*filled))


def _joined(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return two columns one after the other."""
    if one.type != other.type:
        one, other = _plain(one), _plain(other)
    return pa.chunked_array([*one.chunks, *other.chunks], one.type)


def _countable(table: pa.Table, sides: Factor) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which rows count and how many do not, by reason."""
    status, outcome = column(table, "status"), column(table, "outcome")
    known = np.array([label in _HALVES for label in outcome.labels], dtype=bool)[outcome.codes]
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
