"""The samples and pairs of an experiment on their way into and out of the store."""

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.domain import Experiment
from pipeline.errors import CorruptObjectError
from pipeline.ids import Digest, ExperimentName, PairIds, SampleId, digest
from pipeline.pairing import Pairs
from pipeline.samples import Samples
from pipeline.storage import Store, keys
from pipeline.storage.objects import put_once
from pipeline.tasks.columns import Column, equally_long
from pipeline.tasks.rendering import Material

_WRITER = re.compile(r"parquet-cpp-arrow version \d+\.\d+\.\d+")

PAIRS = pa.schema(
    [("pair_id", pa.string()), ("first_id", pa.string()), ("second_id", pa.string()), ("group", pa.string())]
)


def pairs_digest(samples: Digest, pairs: Pairs) -> Digest:
    """Return the name of the pairs: which positions of which samples meet in which order."""
    return digest(b"\n".join([samples.encode(), pairs.first.tobytes(), pairs.second.tobytes()]))


def store_samples(store: Store, name: ExperimentName, samples: Samples) -> None:
    """Put the texts into the store once."""
    put_once(store, keys.samples(name, samples.digest()), samples.to_parquet_bytes)


def store_pairs(store: Store, name: ExperimentName, samples: Samples, pairs: Pairs) -> None:
    """Put the pairs into the store once, by ids."""
    named = pairs_digest(samples.digest(), pairs)
    put_once(store, keys.pairs(name, named), lambda: _pairs_bytes(samples, pairs))


def load_samples(store: Store, experiment: Experiment) -> Samples:
    """Return the experiment's samples; raises CorruptObjectError if they are not the frozen ones."""
    key = keys.samples(experiment.name, experiment.samples)
    samples = Samples.from_parquet_bytes(store.get(key), source=key)
    if samples.digest() != experiment.samples:
        raise CorruptObjectError(f"{key} does not hold the texts it is named after; restore it from a backup")
    return samples


def load_material(store: Store, experiment: Experiment) -> Material:
    """Return the experiment's samples and pairs; raises CorruptObjectError if they are not the frozen ones."""
    samples = load_samples(store, experiment)
    key = keys.pairs(experiment.name, experiment.pairs)
    pairs = _positions(store.get(key), samples.ids(), key=key)
    if pairs_digest(experiment.samples, pairs) != experiment.pairs:
        raise CorruptObjectError(f"{key} does not hold the pairs it is named after; restore it from a backup")
    return Material.of(samples, pairs)


def are_as_written(store: Store, experiment: Experiment) -> bool:
    """Say whether the pairs lie there byte for byte as they were written, as far as this machine's writer can tell.

    Their name tells who meets whom; a byte of a header or of the other columns shows only here. What another version
    of the writer wrote may differ.
    """
    samples = load_samples(store, experiment)
    key = keys.pairs(experiment.name, experiment.pairs)
    data = store.get(key)
    written = _pairs_bytes(samples, _positions(data, samples.ids(), key=key))
    return data == written or (_writer(data) != _writer(written) and _WRITER.fullmatch(_writer(data)) is not None)


def _writer(data: bytes) -> str:
    return str(pq.ParquetFile(pa.BufferReader(data)).metadata.created_by)


def _pairs_bytes(samples: Samples, pairs: Pairs) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        _pairs_table(samples, pairs), sink, compression="zstd", compression_level=1, write_page_checksum=True
    )
    return sink.getvalue()


def _pairs_table(samples: Samples, pairs: Pairs) -> pa.Table:
    ids, groups = pa.array(samples.ids(), pa.string()), pa.array(samples.groups(), pa.string())
    named = equally_long(PairIds(samples.ids()).encoded(pairs.first, pairs.second))
    columns = [named, ids.take(pairs.first), ids.take(pairs.second), groups.take(pairs.first)]
    return pa.table(columns, schema=PAIRS)


def _positions(data: bytes, ids: Sequence[SampleId], *, key: str) -> Pairs:
    names = ["first_id", "second_id"]
    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=names, page_checksum_verification=True)
        table = file.read(names)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise CorruptObjectError(f"{key} is not readable Parquet; restore it from a backup ({error})") from error
    if not all(pa.types.is_dictionary(column.type) for column in table.columns):  # whatever is not text stays plain
        raise CorruptObjectError(f"{key} holds ids that are not text; restore it from a backup")
    known = pa.array(ids, pa.string())
    first, second = (_places(table.column(name), known) for name in names)
    if min(first.min(initial=0), second.min(initial=0)) < 0:
        raise CorruptObjectError(f"{key} names samples that are not among the texts; restore it from a backup")
    return Pairs(first=first, second=second)


def _places(column: "pa.ChunkedArray[Any]", known: Column) -> NDArray[np.int32]:  # Any: as in Column
    """Return where among the known ids each id of an encoded column stands, -1 if nowhere; each is looked up once."""
    nowhere = np.full(1, -1, np.int32)
    made = [nowhere[:0]]
    for chunk in column.chunks:
        found = pc.fill_null(pc.index_in(chunk.dictionary, known), -1).to_numpy().astype(np.int32)
        made.append(np.append(found, nowhere)[pc.fill_null(chunk.indices, -1).to_numpy()])  # the last: of no id at all
    return np.concatenate(made)
