"""The samples and pairs of an experiment on their way into and out of the store."""

import io
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.domain import Experiment
from pipeline.errors import CorruptObjectError
from pipeline.ids import Digest, ExperimentName, PairIds, SampleId, digest
from pipeline.pairing import Pairs
from pipeline.samples import Samples
from pipeline.storage import Store, keys
from pipeline.storage.objects import put_once
from pipeline.tasks.columns import equally_long
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
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = file.read().select(["first_id", "second_id"])
    except (pa.ArrowException, OSError, KeyError) as error:
        raise CorruptObjectError(f"{key} is not readable Parquet; restore it from a backup ({error})") from error
    known = pa.array(ids, pa.string())
    first, second = (
        pc.fill_null(pc.index_in(table.column(name), known), -1).to_numpy().astype(np.int32)
        for name in ("first_id", "second_id")
    )
    if min(first.min(initial=0), second.min(initial=0)) < 0:
        raise CorruptObjectError(f"{key} names samples that are not among the texts; restore it from a backup")
    return Pairs(first=first, second=second)
