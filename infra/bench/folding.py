"""The state of a run with 80,000 events: from the bodies of its commits, from a store, and from a checkpoint on.

Each row stands beside a script that does the same work with `json.loads` and dictionaries, knows just as much of the
protocol as this history needs, and ends with the same facts about every batch.

- `ours` and `json_fold` begin with the bodies of all commits in memory; they decode and fold.
- `proven` and `json_proven` begin with a store: they list it, read every object, hash it, see that the next one names
  its hash, decode and fold. The floor of this row is our own; the design has none.
- `from_a_checkpoint` begins with a store too and ends with the run's counts, as a round of `resume` does. It stands
  beside `json_fold`, which has everything in memory already: without a checkpoint there is no way around its work.
"""

import hashlib
import json
from collections.abc import Iterable
from itertools import chain
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
    RawPart,
    RowsPublished,
    RunPlanned,
    Segment,
    StatusChanged,
    Submitted,
    decode_unproven,
)
from pipeline.folding import fold
from pipeline.ids import BatchId, Digest, ExperimentName, RunId, batch_id
from pipeline.state import BatchState, RunState
from pipeline.storage import checkpoints, keys
from pipeline.storage.checkpoints import Checkpoint
from pipeline.storage.log import RunLog, current_state, read_commits
from pipeline.storage.memory import MemoryStore

RUN = RunId("essays--default--openai--gpt-6-luna--default--forward")
AT_ONCE = 100  # batches that are planned, polled and ended in one commit; everything else is a commit of its own
AT_A_TIME = 128  # commits that a log decodes before it folds them
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
    part = RawPart(name="output", key=key, digest=DIGEST, bytes=1_690_000)
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


def _bodies(store: MemoryStore) -> list[bytes]:
    return [store.get(key) for key in store.list_from(keys.LOG)]


def ours(folder: Path, size: int) -> Result:
    bodies = _bodies(_store(folder, with_checkpoint=False))
    found: list[RunState] = []
    spent = timed(lambda: found.append(_folded(bodies)))
    return {**spent, "whole": _is_whole(found, size)}


def _folded(bodies: list[bytes]) -> RunState:
    blocks = (bodies[at : at + AT_A_TIME] for at in range(0, len(bodies), AT_A_TIME))
    return fold(RunState(run_id=RUN), chain.from_iterable(map(decode_unproven, blocks)))


def proven(folder: Path, size: int) -> Result:
    store = _store(folder, with_checkpoint=False)
    found: list[RunState] = []
    spent = timed(lambda: found.append(current_state(store, RUN)))
    return {**spent, "whole": _is_whole(found, size)}


def from_a_checkpoint(folder: Path, size: int) -> Result:
    store = _store(folder, with_checkpoint=True)
    found: list[RunState] = []
    counted: list[Counts] = []

    def work() -> None:
        found.append(current_state(store, RUN))
        counted.append(found[0].counts)

    spent = timed(work)
    return {**spent, "whole": _is_whole(found, size) * (counted[0].ok == 1_000 * size)}


def _is_whole(found: list[RunState], size: int) -> float:
    (state,) = found
    return float(len(state.batches) == size and state.counts.ok == 1_000 * size)


def json_fold(folder: Path, size: int) -> Result:
    """`json.loads` of every body, and a dictionary a batch that its events change if they come in turn."""
    store = _store(folder, with_checkpoint=False)
    bodies = _bodies(store)
    batches: dict[str, dict[str, Any]] = {}
    spent = timed(lambda: _fold_json(batches, map(json.loads, bodies)))
    return {**spent, "same": float(_is_same(batches, current_state(store, RUN)))}


def json_proven(folder: Path, size: int) -> Result:
    """The same from a store: every object is listed, read, and hashed for the next one to name it."""
    store = _store(folder, with_checkpoint=False)
    batches: dict[str, dict[str, Any]] = {}

    def chained() -> Iterable[dict[str, Any]]:
        before = None
        for key in store.list_from(keys.log(RUN)):
            body = store.get(key)
            commit = json.loads(body)
            if commit["prev"] != before:
                raise ValueError(key)
            before = hashlib.sha256(body).hexdigest()
            yield commit

    spent = timed(lambda: _fold_json(batches, chained()))
    return {**spent, "same": float(_is_same(batches, current_state(store, RUN)))}


def _fold_json(batches: dict[str, dict[str, Any]], commits: Iterable[dict[str, Any]]) -> None:
    epoch = 0
    for commit in commits:
        if commit["epoch"] < epoch:
            continue
        epoch = commit["epoch"]
        for event in commit["events"]:
            if event["type"] == "batch-planned":
                batches.setdefault(event["batch_id"], {**event, "phase": "planned", "place": len(batches)})
            elif event["type"] != "run-planned":
                _change(batches[event["batch_id"]], event, commit)


_IN_TURN = {
    "input-stored": {"planned"},
    "attempt-opened": {"prepared"},
    "submitted": {"submitting"},
    "status-changed": {"submitted", "running"},
    "ended": {"submitted", "running"},
    "outputs-stored": {"ended"},
    "rows-published": {"stored"},
}


def _change(batch: dict[str, Any], event: dict[str, Any], commit: dict[str, Any]) -> None:
    kind = event["type"]
    if batch["phase"] not in _IN_TURN[kind]:
        return
    match kind:
        case "input-stored":
            batch["phase"], batch["input"] = "prepared", event
        case "attempt-opened":
            batch["phase"], batch["attempt"], batch["batch_key"] = "submitting", event["attempt"], event["batch_key"]
            batch["account"], batch["writer"], batch["opened_at"] = event["account"], commit["writer"], commit["at"]
            batch.setdefault("first_opened_at", commit["at"])
        case "submitted":
            batch["phase"], batch["remote_id"], batch["submitted_at"] = "submitted", event["remote_id"], commit["at"]
        case "status-changed":
            batch["phase"], batch["remote_status"], batch["status_at"] = "running", event["status"], commit["at"]
            batch["since"] = {commit["boot"]: commit["uptime"]}
        case "ended":
            batch["phase"], batch["end"], batch["remote_status"] = "ended", event["end"], event["status"]
            batch["ended_at"], batch["since"] = commit["at"], {commit["boot"]: commit["uptime"]}
            batch["remote_parts"], batch["remote_lines"] = event["parts"], event["lines"]
            batch["faults"], batch["fault"], batch["not_before"] = event["faults"], event["fault"], event["not_before"]
        case "outputs-stored":
            batch["phase"], batch["parts"] = "stored", event["parts"]
        case "rows-published":
            batch["phase"], batch["rows"], batch["counts"] = "published", event, event["counts"]
            batch["again"] = event["again"]


def _is_same(batches: dict[str, dict[str, Any]], state: RunState) -> bool:
    """Say whether the dictionaries hold all that our state says, and nothing else."""
    blank = BatchState(batch_id=BatchId(""), segment=0, send=0, requests=0, after=None)
    unsaid = json.loads(msgspec.json.encode(blank))
    theirs = {name: {**unsaid, **batch} for name, batch in batches.items()}
    for batch in theirs.values():
        del batch["type"]
    return bool(theirs == json.loads(msgspec.json.encode(dict(state.batches))))


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size = sizes["batches"]
    prepare(folder, size)
    names = ("ours", "proven", "from_a_checkpoint", "json_fold", "json_proven")
    seen = side_by_side((Case(f"folding.{name}", folder, size) for name in names), rounds=rounds)
    over_fold, over_proven = (
        {name: ratios(seen, f"folding.{peer}", f"folding.{name}") for name in names[:3]}
        for peer in ("json_fold", "json_proven")
    )
    whole = [found for name in names[:3] for found in values(seen, f"folding.{name}", "whole")]
    same = [found for name in names[3:] for found in values(seen, f"folding.{name}", "same")]
    return [
        at_least("state", f"fold of {8 * size:,} events, decode included, over json.loads", over_fold["ours"], 3),
        at_least("state", "from a store, chain proven, over json.loads + hashlib", over_proven["proven"], 1.5),
        at_least("state", "from a checkpoint, over a json.loads fold", over_fold["from_a_checkpoint"], 50),
        at_least("state", "every batch is accounted for", whole, 1, ""),
        at_least("state", "the peers come to the same state", same, 1, ""),
    ]
