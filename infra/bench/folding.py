"""The state of a run with 80,000 events: from every commit of its log, and from a checkpoint on."""

import json
from pathlib import Path
from typing import Any

import msgspec
from measuring import Bar, Case, Result, at_least, ratios, side_by_side, timed, values

from pipeline.clock import SystemClock
from pipeline.domain import Counts
from pipeline.events import (
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    Ended,
    InputStored,
    OutputsStored,
    Part,
    RowsPublished,
    RunPlanned,
    Segment,
    StatusChanged,
    Submitted,
)
from pipeline.ids import BatchId, Digest, ExperimentName, RunId, batch_id
from pipeline.state import RunState
from pipeline.storage import checkpoints, keys
from pipeline.storage.checkpoints import Checkpoint
from pipeline.storage.log import RunLog, current_state, read_commits
from pipeline.storage.memory import MemoryStore

RUN = RunId("essays--default--openai--gpt-6-luna--default--forward")
AT_ONCE = 100  # batches that are planned, polled and ended in one commit; everything else is a commit of its own
DIGEST = Digest("0" * 64)


class Object(msgspec.Struct):
    key: str
    body: bytes


def history(batches: int) -> list[list[AnyEvent]]:
    """Return the commits of a run in which everything went well: eight events a batch, and its plan."""
    names = [batch_id(number, 1) for number in range(batches)]
    segment = Segment(start=0, requests=1_000, bytes=5_900_000)
    plan = RunPlanned(
        experiment=ExperimentName("essays"), experiment_digest=DIGEST, run_digest=DIGEST, requests=1_000 * batches,
        attempts=3, segments=(segment,),
    )  # fmt: skip
    commits: list[list[AnyEvent]] = [[plan]]
    for start in range(0, batches, AT_ONCE):
        some = names[start : start + AT_ONCE]
        commits.append([BatchPlanned(batch_id=each, segment=start, send=1, requests=1_000) for each in some])
        commits += [[event] for each in some for event in _sent(each)]
        commits.append([StatusChanged(batch_id=each, status="in_progress") for each in some])
        commits.append(
            [Ended(batch_id=each, end="completed", status="completed", parts={"output": "f"}) for each in some]
        )
        commits += [[event] for each in some for event in _read(each)]
    return commits


def _sent(name: BatchId) -> list[AnyEvent]:
    return [
        InputStored(batch_id=name, key=keys.requests(RUN, name), digest=DIGEST, bytes=5_900_000, requests=1_000),
        AttemptOpened(batch_id=name, attempt=1, batch_key="pl-0123456789abcdef", account="0123456789"),
        Submitted(batch_id=name, attempt=1, remote_id="batch_0123456789abcdef0123456789abcdef"),
    ]


def _read(name: BatchId) -> list[AnyEvent]:
    key = keys.output(RUN, name, attempt=1, part="output", source="file")
    part = Part(name="output", key=key, digest=DIGEST, bytes=1_690_000)
    return [
        OutputsStored(batch_id=name, attempt=1, parts=(part,)),
        RowsPublished(batch_id=name, key=key, digest=DIGEST, counts=Counts(planned=1_000, ok=1_000)),
    ]


def prepare(folder: Path, size: int) -> None:
    """Write the log's objects, and a checkpoint shortly before its end, one after the other into a file."""
    store = MemoryStore()
    log = RunLog(_WithoutCheckpoints(store), RUN, clock=SystemClock(), writer="bench")
    commits = history(size)
    for number, events in enumerate(commits):
        log.append(*events)
        if number == len(commits) - 50:
            (_, head), *_ = list(read_commits(store, RUN))[-1:]
            checkpoints.save(store, Checkpoint(seq=number, head=head, state=log.state))
    found = [
        Object(key, store.get(key)) for folder_ in (keys.LOG, keys.CHECKPOINTS) for key in store.list_from(folder_)
    ]
    (folder / "log.msgpack").write_bytes(msgspec.msgpack.encode(found))


class _WithoutCheckpoints(MemoryStore):
    """Lets a log be written without the checkpoints it would leave on its way."""

    def __init__(self, store: MemoryStore) -> None:
        self._inner = store

    def put_new(self, key: str, body: bytes) -> None:
        if not key.startswith(keys.CHECKPOINTS):
            self._inner.put_new(key, body)


def _store(folder: Path, *, with_checkpoint: bool) -> MemoryStore:
    store = MemoryStore()
    for each in msgspec.msgpack.decode((folder / "log.msgpack").read_bytes(), type=list[Object]):
        if with_checkpoint or not each.key.startswith(keys.CHECKPOINTS):
            store.put_new(each.key, each.body)
    return store


def ours(folder: Path, size: int) -> Result:
    store = _store(folder, with_checkpoint=False)
    found: list[int] = []
    spent = timed(lambda: found.append(current_state(store, RUN).counts.ok))
    return {**spent, "whole": float(found == [1_000 * size])}


def from_a_checkpoint(folder: Path, size: int) -> Result:
    store = _store(folder, with_checkpoint=True)
    found: list[int] = []
    spent = timed(lambda: found.append(current_state(store, RUN).counts.ok))
    return {**spent, "whole": float(found == [1_000 * size])}


def json_fold(folder: Path, size: int) -> Result:
    """`json.loads` of every object, and a dictionary a batch that its events change: the same state as ours."""
    store = _store(folder, with_checkpoint=False)
    batches: dict[str, dict[str, Any]] = {}

    def work() -> int:
        for key in store.list_from(keys.LOG):
            commit = json.loads(store.get(key))
            for event in commit["events"]:
                if event["type"] == "batch-planned":
                    batches[event["batch_id"]] = {**event, "phase": "planned"}
                elif event["type"] != "run-planned":
                    _change(batches[event["batch_id"]], event, commit)
        return sum(batch["rows"]["counts"]["ok"] for batch in batches.values())

    spent = timed(work)
    return {**spent, "same": float(_is_same(batches, current_state(store, RUN)))}


def _change(batch: dict[str, Any], event: dict[str, Any], commit: dict[str, Any]) -> None:
    match event["type"]:
        case "input-stored":
            batch["phase"], batch["input"] = "prepared", event
        case "attempt-opened":
            batch["phase"], batch["opened_at"], batch["writer"] = "submitting", commit["at"], commit["writer"]
            batch["attempt"], batch["batch_key"], batch["account"] = (
                event["attempt"],
                event["batch_key"],
                event["account"],
            )
        case "submitted":
            batch["phase"], batch["remote_id"], batch["submitted_at"] = "submitted", event["remote_id"], commit["at"]
        case "status-changed":
            batch["phase"], batch["remote_status"], batch["status_at"] = "running", event["status"], commit["at"]
        case "ended":
            batch["phase"], batch["end"], batch["remote_status"] = "ended", event["end"], event["status"]
            batch["ended_at"], batch["remote_parts"] = commit["at"], event["parts"]
        case "outputs-stored":
            batch["phase"], batch["parts"] = "stored", event["parts"]
        case "rows-published":
            batch["phase"], batch["rows"], batch["counts"] = "published", event, event["counts"]


def _is_same(batches: dict[str, dict[str, Any]], state: RunState) -> bool:
    """Say whether what the dictionaries hold is what our state says."""
    ours = json.loads(msgspec.json.encode(state.batches))
    return ours.keys() == batches.keys() and all(
        ours[name][field] == value
        for name, batch in batches.items()
        for field, value in batch.items()
        if field != "type"
    )


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size = sizes["batches"]
    prepare(folder, size)
    names = ("ours", "from_a_checkpoint", "json_fold")
    seen = side_by_side((Case(f"folding.{name}", folder, size) for name in names), rounds=rounds)
    over = {name: ratios(seen, "folding.json_fold", f"folding.{name}") for name in names}
    whole = values(seen, "folding.ours", "whole") + values(seen, "folding.from_a_checkpoint", "whole")
    return [
        at_least("state", f"fold of {8 * size:,} events, over json.loads", over["ours"], 3),
        at_least("state", "the same from a checkpoint", over["from_a_checkpoint"], 50),
        at_least("state", "every batch is accounted for", whole, 1, ""),
    ]
