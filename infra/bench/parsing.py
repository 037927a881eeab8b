"""B. From a judge's raw output lines to the rows of the comparisons table, as Parquet with zstd at level 1.

Everybody reads the same answers and writes the same 32 columns. Ours lie compressed in the store, are checked for
doubled, foreign, damaged and missing lines, and are recorded on the log; a script reads the plain file it downloaded.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import data
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import Bar, Case, Result, at_least, at_most, ratios, side_by_side, timed, values

from pipeline.operations.batches.publishing import publish_due
from pipeline.operations.workers.run import Run
from pipeline.providers import openai
from pipeline.storage.local import LocalStore
from pipeline.storage.streams import decompressed
from pipeline.storage.tables import writing
from pipeline.tasks.pairwise import SCHEMA
from pipeline.tasks.rendering import Renderer

TAG = re.compile(r"<BETTER_SAMPLE>\s*(SAMPLE_[12])\s*</BETTER_SAMPLE>", re.IGNORECASE)
OUTCOMES = {"SAMPLE_1": "first", "SAMPLE_2": "second"}
Line = dict[str, Any]  # as a person would take it from json
WITH_NAMES = ("pair_id", "first_id", "second_id", "first_contestant", "second_contestant", "request_id")
CONSTANT = {
    "experiment": "essays", "run_id": "essays--default--openai--gpt-6-luna--default--forward", "template": "default",
    "provider": "openai", "model": "gpt-6-luna", "reasoning": "default", "direction": "forward", "repeat": 1,
}  # fmt: skip


def prepare(folder: Path, size: int) -> None:
    """Put the answers of a study into a store, and beside it what a script would have: raw lines and its requests."""
    hand = data.worker(LocalStore(folder / "store"))
    run = data.opened_run(hand, data.write_study(folder, size))
    data.answer_all(run)
    with (folder / "raw.jsonl").open("wb") as file:
        for chunk in raw(run):
            file.write(chunk)
    pq.write_table(requests(run), folder / "requests.parquet")


def raw(run: Run) -> Iterator[bytes]:
    for batch in run.refresh().batches.values():
        for part in batch.parts:
            with run.worker.store.open(part.key) as file:
                yield from decompressed(file, key=part.key)


def requests(run: Run) -> pa.Table:
    """Return what was asked, under the ids that were sent."""
    at, material = data.positions(run), run.material
    renderer = run.renderer
    assert isinstance(renderer, Renderer)
    first, second = renderer.sides
    ids, contestants = pa.array(material.ids), pa.array(material.contestants)
    columns = [renderer.names(at), ids.take(first), ids.take(second)]
    columns += [contestants.take(first), contestants.take(second), renderer.request_ids(at)]
    return pa.table(columns, names=list(WITH_NAMES))


def ours(folder: Path, size: int) -> Result:
    """Publish every batch of the study from a store that looks as it did after the download."""
    import pandas  # noqa: F401, ICN001 - pyarrow imports it where it finds it; nobody's imports are timed

    fresh = folder / f"store-{os.getpid()}"
    shutil.copytree(folder / "store", fresh, copy_function=os.link)
    run = data.worker(LocalStore(fresh)).runs(data.NAME)[0]
    try:
        spent = timed(lambda: publish_due(run))
        return {**spent, "rows": run.state.counts.ended}
    finally:
        shutil.rmtree(fresh)


def row(line: Line, asked: dict[str, tuple[str, ...]]) -> dict[str, object]:
    """Return one row of the table from one line, as a person would write it down."""
    body = line["response"]["body"]
    choice, usage = body["choices"][0], body["usage"]
    content = choice["message"]["content"]
    pair, first, second, one, other = asked[line["custom_id"]]
    said = {word.upper() for word in TAG.findall(content)}
    outcome = OUTCOMES[said.pop()] if len(said) == 1 else None
    return {
        **CONSTANT,
        "pair_id": pair,
        "first_id": first,
        "second_id": second,
        "first_contestant": one,
        "second_contestant": other,
        "group": None,
        "status": "ok" if outcome else "unparsed",
        "outcome": outcome,
        "winner_id": None if outcome is None else first if outcome == "first" else second,
        "winner_contestant": None if outcome is None else one if outcome == "first" else other,
        "reason": None if outcome else "two_answers" if said else "no_answer",
        "content": content,
        "thoughts": None,
        "finish_reason": choice["finish_reason"],
        "returned_model": body["model"],
        "input_tokens": usage["prompt_tokens"],
        "cached_tokens": usage["prompt_tokens_details"]["cached_tokens"],
        "output_tokens": usage["completion_tokens"],
        "reasoning_tokens": usage["completion_tokens_details"]["reasoning_tokens"],
        "attempt": 1,
        "request_id": line["custom_id"],
        "batch_id": "s000-1",
        "remote_batch_id": "batch_s000-1",
        "judged_at": body["created"],
    }


def asked_in(folder: Path) -> dict[str, tuple[str, ...]]:
    columns = [column.to_pylist() for column in pq.read_table(folder / "requests.parquet").columns]
    return {name: tuple(rest) for *rest, name in zip(*columns, strict=True)}


def by_script(folder: Path, parsed: Callable[[str], Line]) -> Result:
    """Read, parse and write everything the way of a notebook: rows in a list, a frame, a file."""
    import pandas as pd

    def work() -> None:
        asked = asked_in(folder)
        with (folder / "raw.jsonl").open(encoding="utf-8") as file:
            frame = pd.DataFrame([row(parsed(line), asked) for line in file])
        frame["judged_at"] = pd.to_datetime(frame["judged_at"], unit="s", utc=True)
        frame.to_parquet(folder / "script.parquet", compression="zstd", compression_level=1)

    return timed(work)


def json_pandas(folder: Path, size: int) -> Result:
    import json

    return by_script(folder, json.loads)


def openai_types(folder: Path, size: int) -> Result:
    """The same with the answer validated by the types of OpenAI's own library."""
    import json

    from openai.types.chat import ChatCompletion

    def parsed(line: str) -> Line:
        found = json.loads(line)
        body = ChatCompletion.model_validate(found["response"]["body"])
        usage = body.usage
        assert usage
        assert usage.prompt_tokens_details
        assert usage.completion_tokens_details
        return {
            "custom_id": found["custom_id"],
            "response": {
                "body": {
                    "choices": [
                        {
                            "message": {"content": body.choices[0].message.content},
                            "finish_reason": body.choices[0].finish_reason,
                        }
                    ],
                    "model": body.model,
                    "created": body.created,
                    "usage": {
                        "prompt_tokens": usage.prompt_tokens,
                        "completion_tokens": usage.completion_tokens,
                        "prompt_tokens_details": {"cached_tokens": usage.prompt_tokens_details.cached_tokens},
                        "completion_tokens_details": {
                            "reasoning_tokens": usage.completion_tokens_details.reasoning_tokens
                        },
                    },
                }
            },
        }

    return by_script(folder, parsed)


def duck(folder: Path, size: int) -> Result:
    """One statement of SQL."""
    import duckdb

    constants = ", ".join(f"'{value}' AS {name}" for name, value in CONSTANT.items() if name != "repeat")
    query = f"""
    COPY (
      WITH lines AS (
        SELECT custom_id AS request_id, response.body AS body, response.body.choices[1] AS choice,
          list_distinct(list_transform(regexp_extract_all(response.body.choices[1].message.content,
            '<BETTER_SAMPLE>\\s*(SAMPLE_[12])\\s*</BETTER_SAMPLE>', 1, 'i'), lambda word: upper(word))) AS said
        FROM read_json('{folder}/raw.jsonl', format='newline_delimited', columns={{custom_id: 'VARCHAR', response:
          'STRUCT(body STRUCT(created BIGINT, model VARCHAR, choices STRUCT(message STRUCT(content VARCHAR),
           finish_reason VARCHAR)[], usage STRUCT(prompt_tokens INTEGER, completion_tokens INTEGER,
           prompt_tokens_details STRUCT(cached_tokens INTEGER),
           completion_tokens_details STRUCT(reasoning_tokens INTEGER))))'}})),
      read AS (
        SELECT *, CASE WHEN len(said) = 1 THEN CASE said[1] WHEN 'SAMPLE_1' THEN 'first' ELSE 'second' END END
          AS outcome FROM lines)
      SELECT {constants}, 1::SMALLINT AS repeat, pair_id, first_id, second_id, first_contestant, second_contestant,
        NULL::VARCHAR AS "group", CASE WHEN outcome IS NULL THEN 'unparsed' ELSE 'ok' END AS status, outcome,
        CASE outcome WHEN 'first' THEN first_id WHEN 'second' THEN second_id END AS winner_id,
        CASE outcome WHEN 'first' THEN first_contestant WHEN 'second' THEN second_contestant END AS winner_contestant,
        CASE WHEN outcome IS NULL THEN CASE WHEN len(said) > 1 THEN 'two_answers' ELSE 'no_answer' END END AS reason,
        choice.message.content AS content, NULL::VARCHAR AS thoughts, choice.finish_reason AS finish_reason,
        body.model AS returned_model, body.usage.prompt_tokens AS input_tokens,
        body.usage.prompt_tokens_details.cached_tokens AS cached_tokens,
        body.usage.completion_tokens AS output_tokens,
        body.usage.completion_tokens_details.reasoning_tokens AS reasoning_tokens, 1::SMALLINT AS attempt,
        request_id, 's000-1' AS batch_id, 'batch_s000-1' AS remote_batch_id, to_timestamp(body.created) AS judged_at
      FROM read JOIN '{folder}/requests.parquet' USING (request_id)
    ) TO '{folder}/duck.parquet' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"""

    def work() -> None:
        with duckdb.connect() as database:
            database.execute("SET threads = 1")
            database.execute(query)

    return timed(work)


def decode_and_write(folder: Path, size: int) -> Result:
    """The limit of this design: decode every line with msgspec, and write the finished table; nothing in between."""
    table = published(folder)

    def work() -> None:
        with (folder / "raw.jsonl").open("rb") as file:
            for line in file:
                openai.decode(line)
        pq.write_table(table, folder / "limit.parquet", row_group_size=65_536, **writing(table.schema))

    return timed(work)


def reading(folder: Path, size: int) -> Result:
    """The other limit: look at every byte once."""

    def work() -> None:
        with (folder / "raw.jsonl").open("rb") as file:
            while block := file.read(1 << 20):
                block.count(b"\n")

    return timed(work)


def published(folder: Path) -> pa.Table:
    """Return the table that publishing gives, made once."""
    path = folder / "ours.parquet"
    if not path.exists():
        fresh = folder / "store-table"
        shutil.copytree(folder / "store", fresh, copy_function=os.link)
        run = data.worker(LocalStore(fresh)).runs(data.NAME)[0]
        publish_due(run)
        tables = [
            pq.read_table(fresh / batch.rows.key, partitioning=None)
            for batch in run.state.batches.values()
            if batch.rows and batch.rows.key
        ]
        pq.write_table(pa.concat_tables(tables), path)
        shutil.rmtree(fresh)
    return pq.read_table(path)


def equality(folder: Path, size: int) -> Result:
    """Whether a script's table and ours say the same about every request, in answers that are not one another's."""
    json_pandas(folder, size)
    names = [name for name in SCHEMA.names if name not in {"batch_id", "remote_batch_id", "judged_at", "attempt"}]
    mine, theirs = (
        table.select(names).sort_by("request_id").to_pylist()
        for table in (published(folder), pq.read_table(folder / "script.parquet"))
    )
    said = [row["content"] for row in mine if row["content"] is not None]
    return {
        "equal": float(msgspec.json.encode(mine) == msgspec.json.encode(theirs)),
        "distinct": len(set(said)) / len(said),
    }


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size, few = sizes["million"], sizes["million"] // 10
    stage, mine, naive, small = "B parse", "parsing.ours", "parsing.json_pandas", folder / "small"
    prepare(folder, size)
    prepare(small, few)
    names = ("json_pandas", "duck", "decode_and_write", "reading", "ours")
    seen = side_by_side((Case(f"parsing.{name}", folder, size) for name in names), rounds=min(rounds, 3))
    slow = side_by_side((Case(f"parsing.{name}", small, few) for name in ("openai_types", "ours")), rounds=rounds)
    same = side_by_side([Case("parsing.equality", small, few)], rounds=1)
    grown = [one / other for one, other in zip(values(seen, mine, "rss"), values(slow, mine, "rss"), strict=False)]
    return [
        at_least(stage, f"{size:,} to Parquet, over json.loads and pandas", ratios(seen, naive, mine), 2.5),
        at_least(stage, f"{few:,} to Parquet, over OpenAI's types", ratios(slow, "parsing.openai_types", mine), 2.5),
        at_least(stage, "of DuckDB", ratios(seen, "parsing.duck", mine), 0.65),
        at_least(stage, "of decoding and writing alone", ratios(seen, "parsing.decode_and_write", mine), 0.55),
        at_least(stage, "of reading the bytes", ratios(seen, "parsing.reading", mine), 0.01),
        at_least(stage, "table equal to the script's", values(same, "parsing.equality", "equal"), 1, ""),
        at_least(stage, "share of answers like no other", values(same, "parsing.equality", "distinct"), 0.99, ""),
        at_most(stage, f"memory at {size:,}, of json.loads and pandas", ratios(seen, mine, naive, of="rss"), 0.1),
        at_most(stage, f"memory at {size:,}", values(seen, mine, "rss"), 512, " MB"),
        at_most(stage, f"memory at {size:,}, of its own at {few:,}", grown, 1.2),
    ]
