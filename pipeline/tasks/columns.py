"""The columns that the tables of all tasks share."""

import pyarrow as pa

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
