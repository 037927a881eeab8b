"""Checking a store against its own log: every invariant and every digest that bytes alone can show."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from pipeline.breaches import out_of_turn
from pipeline.domain import STATUSES, Counts, Experiment
from pipeline.errors import ConfigError, PipelineError
from pipeline.events import Commit, RawPart
from pipeline.folding import fold
from pipeline.ids import Digest, ExperimentName, digest
from pipeline.operations.workers.material import are_as_written, load_material
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.samples import Samples
from pipeline.state import BatchState, RunState
from pipeline.storage import checkpoints, keys
from pipeline.storage.leases import is_lease
from pipeline.storage.log import read_commits, state_as_of
from pipeline.storage.objects import measured_inside
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import opened, stream
from pipeline.tasks import task_named, tasks
from pipeline.tasks.lookup import Lookup
from pipeline.wording import counted


class _LiveLine(msgspec.Struct):
    request_id: str


_live_lines = msgspec.json.Decoder(_LiveLine)
_CONTENT_NAME = re.compile(r"[0-9a-f]{64}\.parquet")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it must be, and the object it is about."""

    key: str
    problem: str


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found wrong."""

    objects: int
    requests: int
    findings: tuple[Finding, ...]


class _Auditor:
    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.seen: set[str] = set()
        self.findings: list[Finding] = []
        self.requests = 0
        self.runs: list[Run] = []

    def broken(self, key: str, problem: str) -> None:
        self.findings.append(Finding(key=key, problem=problem))

    def checked(self, key: str, check: Callable[[], object]) -> None:
        """Run a check on an object; whatever it raises on purpose is a finding."""
        self.seen.add(key)
        try:
            check()
        except PipelineError as error:
            self.broken(key, str(error))

    def matches(self, key: str, expected: Digest, actual: Digest) -> None:
        if actual != expected:
            self.broken(key, f"has digest {actual[:12]}…, but {expected[:12]}… was recorded")


def audit(worker: Worker, names: list[ExperimentName]) -> Audit:
    """Check these experiments, or the whole store if none is named."""
    auditor = _Auditor(worker)
    everything = not names
    for name in names or worker.experiment_names():
        _experiment(auditor, name)
    if everything:
        _strays(auditor)
    return Audit(objects=len(auditor.seen), requests=auditor.requests, findings=tuple(auditor.findings))


class _Billed(msgspec.Struct):
    custom_id: str | None = None
    delivered: bool = True


class _Made(msgspec.Struct):
    """A batch by the simulator's id, and as its maker was told it is called where a ledger holds that."""

    batch_id: str
    remote_id: str | None = None

    @property
    def name(self) -> str:
        """What a log calls it."""
        return self.remote_id or self.batch_id


class _Ledger(msgspec.Struct):
    billed: list[_Billed] = []
    batches: list[_Made] = []


class _Entry(msgspec.Struct):
    type: str
    batch_id: str | None = None
    remote_id: str | None = None
    custom_id: str | None = None
    delivered: bool = True


def _told(ledger: bytes) -> _Ledger:
    """Return what a ledger says, be it the simulator's answer or its file of JSON lines."""
    try:
        if b'"billed":[' in ledger:
            return msgspec.json.decode(ledger, type=_Ledger)
        entries = msgspec.json.Decoder(_Entry).decode_lines(ledger)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"the ledger is not one that a simulator wrote: {error}") from error
    return _Ledger(
        billed=[_Billed(custom_id=one.custom_id, delivered=one.delivered) for one in entries if one.type == "billed"],
        batches=[
            _Made(batch_id=one.batch_id, remote_id=one.remote_id)
            for one in entries
            if one.type == "batch" and one.batch_id
        ],
    )


def audit_ledger(worker: Worker, ledger: bytes) -> list[Finding]:
    """Check a simulator's ledger against the log: each batch is known, and nothing was paid for again after it came."""
    told = _told(ledger)
    states = [run.refresh() for name in worker.experiment_names() for run in worker.runs(name)]
    known = {
        remote_id
        for state in states
        for batch in state.batches.values()
        for remote_id in (batch.remote_id, *batch.superseded, *batch.spent)
    }
    findings = [
        Finding(key=each.name, problem="was made at the provider and no log knows it")
        for each in told.batches
        if each.name not in known
    ]
    delivered: set[str] = set()
    for entry in told.billed:
        if entry.custom_id is not None and entry.custom_id in delivered:
            findings.append(
                Finding(key=entry.custom_id, problem="was paid for again after its answer had been delivered")
            )
        if entry.custom_id is not None and entry.delivered:
            delivered.add(entry.custom_id)
    return findings


def _experiment(auditor: _Auditor, name: ExperimentName) -> None:
    store = auditor.worker.store
    for key in store.list_from(keys.experiments(name)):
        auditor.seen.add(key)
        named = keys.experiment_named(key)
        if named is None:
            auditor.broken(key, "is not a frozen experiment")
        else:
            auditor.matches(key, named[1], digest(store.get(key)))
    try:
        versions = auditor.worker.experiments(name)
        runs = auditor.worker.runs(name)
    except PipelineError as error:
        auditor.broken(keys.experiments(name), str(error))
        return
    for _, experiment in versions:
        _material(auditor, experiment)
    auditor.runs += runs
    for run in runs:
        _run(auditor, run)


def _material(auditor: _Auditor, experiment: Experiment) -> None:
    samples, pairs = keys.samples(experiment.name, experiment.samples), keys.pairs(experiment.name, experiment.pairs)
    for key in (samples, pairs):
        auditor.checked(key, partial(_pages, auditor, key))
    auditor.checked(pairs, lambda: _load(auditor, experiment))


def _load(auditor: _Auditor, experiment: Experiment) -> None:
    store = auditor.worker.store
    load_material(store, experiment)
    if not are_as_written(store, experiment):
        auditor.broken(
            keys.pairs(experiment.name, experiment.pairs), "holds its pairs in other bytes than were written"
        )


def _pages(auditor: _Auditor, key: str) -> None:
    """Verify every page of a Parquet object, and the bytes before them that no reader looks at."""
    with auditor.worker.store.open(key) as file:
        if file.read(4) != b"PAR1":
            auditor.broken(key, "does not begin like a Parquet file")
    for _ in stream(auditor.worker.store, [key]):
        pass


def _run(auditor: _Auditor, run: Run) -> None:
    store = auditor.worker.store
    for key in store.list_from(keys.log(run.run_id)):
        auditor.seen.add(key)
        if keys.commit_seq(key) is None:
            auditor.broken(key, "is not a commit and does not belong in a log")
    try:
        state = state_as_of(store, run.run_id)
        run.refresh()
    except PipelineError as error:
        auditor.broken(keys.log(run.run_id), str(error))
        return
    commits = [commit for commit, _ in read_commits(store, run.run_id)]
    for seq, problem in out_of_turn(run.run_id, commits):
        auditor.broken(keys.commit(run.run_id, seq), problem)
    _checkpoints(auditor, run, commits)
    if state.plan is None:
        return
    auditor.requests += state.plan.requests
    if state.plan.run_digest != run.config.digest():
        auditor.broken(keys.commit(run.run_id, 0), "was planned for a configuration other than the frozen one")
    if state.counts.open < 0:
        auditor.broken(keys.log(run.run_id), f"more requests ended ({state.counts.ended}) than were planned")
    ended: set[str] = set()
    for batch in state.batches.values():
        _batch(auditor, run, batch, ended)


def _checkpoints(auditor: _Auditor, run: Run, commits: list[Commit]) -> None:
    """Compare every readable checkpoint with what the log folds to there; one ahead of the log betrays a lost tail."""
    store = auditor.worker.store
    for key in store.list_from(keys.checkpoints(run.run_id)):
        found = checkpoints.decode(store.get(key))
        if found is None:
            continue
        if found.seq >= len(commits):
            auditor.broken(key, f"was made after commit {found.seq}, but the log ends at {len(commits) - 1}")
        elif found.state != fold(RunState(run_id=run.run_id), commits[: found.seq + 1]):
            auditor.broken(key, "does not hold what the log folds to; delete it")


def _batch(auditor: _Auditor, run: Run, batch: BatchState, ended: set[str]) -> None:
    stored = [RawPart(name="input", key=batch.input.key, digest=batch.input.digest, bytes=0)] if batch.input else []
    for part in (*stored, *batch.parts):
        auditor.checked(part.key, partial(_stream, auditor, part))
    if run.is_live:
        _live_answers(auditor, run, batch)
    unrecorded = auditor.worker.store.list_from(keys.outputs(run.run_id, batch.batch_id))
    for key in (key for key in unrecorded if key not in auditor.seen and keys.is_part(key)):
        auditor.checked(key, partial(_lines, auditor, key))  # only that it can be read
    if batch.rows_key:
        auditor.checked(batch.rows_key, lambda: _rows(auditor, run, batch, ended))
    if batch.rows is not None and batch.rows.counts.ended + batch.rows.again != batch.requests:
        told = f"{batch.rows.counts.ended} ended and {batch.rows.again} to be sent again"
        auditor.broken(keys.log(run.run_id), f"{batch.batch_id} has {batch.requests} requests, but {told}")
    _attempts(auditor, run, batch)


def _attempts(auditor: _Auditor, run: Run, batch: BatchState) -> None:
    if batch.superseded and batch.remote_id and len({*batch.superseded}) > batch.attempt:
        auditor.broken(keys.log(run.run_id), f"{batch.batch_id} has more batches at the provider than attempts")


def _stream(auditor: _Auditor, part: RawPart) -> None:
    auditor.matches(part.key, part.digest, measured_inside(auditor.worker.store, part.key).digest())


def _lines(auditor: _Auditor, key: str) -> list[bytes]:
    with auditor.worker.store.open(key) as file:
        return [line for line in lines(decompressed(file, key=key)) if line]


def _read_into(lines: dict[str, list[bytes]], auditor: _Auditor, key: str) -> None:
    lines[key] = _lines(auditor, key)


def _live_answers(auditor: _Auditor, run: Run, batch: BatchState) -> None:
    """Compare the answers as they came with those that were gathered from them: of two to one request the first."""
    listed = auditor.worker.store.list_from(keys.outputs(run.run_id, batch.batch_id))
    recorded = {part.key for part in batch.parts}
    came: dict[str, list[bytes]] = {}
    for key in (key for key in listed if keys.is_part(key) and key not in recorded):
        auditor.checked(key, partial(_read_into, came, auditor, key))
    gathered: set[bytes] = set()
    with contextlib.suppress(PipelineError):  # a part that cannot be read is a finding already
        gathered = {line for part in batch.parts for line in _lines(auditor, part.key)}
    named = Counter(_request_id(line) for some in came.values() for line in some)
    for key, some in came.items():
        odd = [line for line in some if batch.parts and line not in gathered and named[_request_id(line)] == 1]
        damaged = {*odd, *(line for line in some if _request_id(line) is None)}
        if damaged:
            auditor.broken(key, f"holds {counted(len(damaged), 'line')} that did not come so")


def _request_id(line: bytes) -> str | None:
    try:
        return _live_lines.decode(line).request_id
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _rows(auditor: _Auditor, run: Run, batch: BatchState, ended: set[str]) -> None:
    rows, store = batch.rows, auditor.worker.store
    assert rows is not None, "only published rows are checked"
    assert rows.key is not None, "only published rows are checked"
    assert rows.digest is not None, "rows under a key have a digest"
    auditor.matches(rows.key, rows.digest, digest(store.get(rows.key)))
    with opened(store, rows.key) as file:
        table = file.read(columns=["request_id", "status"])
    ids = table.column("request_id").to_pylist()
    doubled = len(ids) - len(set(ids)) + len(ended.intersection(ids))
    if doubled:
        auditor.broken(rows.key, f"holds {doubled} requests that have a row already")
    ended.update(ids)
    members = run.members(batch)
    strangers = int((Lookup(members, run.renderer.request_ids(members)).places(ids) < 0).sum())
    if strangers:
        auditor.broken(rows.key, f"holds {strangers} rows of requests that are not in {batch.batch_id}")
    found = table.column("status").to_pylist()
    counts = Counts(planned=len(ids), **{status: found.count(status) for status in STATUSES})
    if counts != rows.counts:
        auditor.broken(rows.key, f"holds {counts.as_dict()}, but {rows.counts.as_dict()} was recorded")


def _strays(auditor: _Auditor) -> None:
    """Name every object that no event points to, unless a worker that died may have left it."""
    possible = set(_left_over(auditor))
    for key in _everything(auditor.worker):
        if key in auditor.seen or key in possible:
            continue
        if _material_name(key):
            auditor.checked(key, partial(_left_material, auditor, key))
        elif key.rpartition("/")[0] not in possible or (key.startswith("outputs/") and not keys.is_part(key)):
            auditor.broken(key, "belongs to no run and no experiment")
    _leases(auditor)


def _leases(auditor: _Auditor) -> None:
    """Name what is no lease where leases lie; of each name only the newest counts, and is read."""
    store = auditor.worker.store
    found = store.list_from(keys.LEASES)
    newest = {key.rpartition("/")[0]: key for key in found if keys.lease_epoch(key) is not None}
    strays = [key for key in found if keys.lease_epoch(key) is None]
    for key in (*strays, *(key for key in newest.values() if not is_lease(store.get(key)))):
        auditor.broken(key, "is no lease; delete it")


def _left_material(auditor: _Auditor, key: str) -> None:
    """Check texts and pairs that no experiment names: who stored them died before it was frozen."""
    _pages(auditor, key)
    if key.startswith("samples/"):
        samples = Samples.from_parquet_bytes(auditor.worker.store.get(key), source=key)
        auditor.matches(key, Digest(key.rpartition("/")[2].removesuffix(".parquet")), samples.digest())


def _left_over(auditor: _Auditor) -> Iterator[str]:
    """Yield the names under which the known batches may have left an object, or a folder of them."""
    for run in auditor.runs:
        for batch_id in run.state.batches:
            yield keys.requests(run.run_id, batch_id)
            yield keys.rows(task_named(run.config.task).TABLE, run.experiment.name, run.run_id, batch_id)
            yield keys.outputs(run.run_id, batch_id)
        yield keys.checkpoints(run.run_id)


def _material_name(key: str) -> bool:
    return key.startswith(("samples/", "pairs/")) and _CONTENT_NAME.fullmatch(key.rpartition("/")[2]) is not None


def _everything(worker: Worker) -> Iterator[str]:
    tables = [task.TABLE for task in tasks().values()]
    for folder in (*keys.PROVEN, *tables):
        yield from worker.store.list_from(folder)
