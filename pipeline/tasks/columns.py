"""The columns that the tables of all tasks share, and columns of texts."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column: TypeAlias = "pa.Array[Any]"  # Any: which scalars it holds is said by the schema

_NAME = pa.dictionary(pa.int32(), pa.string())

HEAD = [
    pa.field("experiment", _NAME),
    pa.field("run_id", _NAME),
    pa.field("template", _NAME),
    pa.field("provider", _NAME),
    pa.field("model", _NAME),
    pa.field("reasoning", _NAME),
]
REPEAT = pa.field("repeat", pa.int16())
SAMPLE = pa.field("sample_id", pa.string())
CONTESTANT = pa.field("contestant", pa.string())
GROUP = pa.field("group", pa.string())
CRITERION = pa.field("criterion", pa.string())
STATUS = pa.field("status", pa.string())
OUTPUT = [
    pa.field("reason", pa.string()),
    pa.field("content", pa.string()),
    pa.field("thoughts", pa.string()),
    pa.field("finish_reason", pa.string()),
    pa.field("returned_model", pa.string()),
    pa.field("input_tokens", pa.int32()),
    pa.field("cached_tokens", pa.int32()),
    pa.field("output_tokens", pa.int32()),
    pa.field("reasoning_tokens", pa.int32()),
    pa.field("attempt", pa.int16()),
    pa.field("request_id", pa.string()),
    pa.field("batch_id", pa.string()),
    pa.field("remote_batch_id", pa.string()),
    pa.field("judged_at", pa.timestamp("us", tz="UTC")),
]


def about_samples(*, subject: list[pa.Field], answer: list[pa.Field]) -> pa.Schema:
    """Return the schema of a task about one sample: `subject` says more of what was asked, `answer` what was said."""
    return pa.schema([*HEAD, REPEAT, SAMPLE, *subject, STATUS, *answer, *OUTPUT])


def strings(values: Sequence[str | None]) -> Column:
    """Return the values as a column of texts."""
    return pa.array(values, pa.string())


def equally_long(encoded: NDArray[np.bytes_]) -> Column:
    """Return texts of one length, encoded and none of them padded, as a column of texts."""
    ends = np.arange(len(encoded) + 1, dtype=np.int32) * encoded.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)
