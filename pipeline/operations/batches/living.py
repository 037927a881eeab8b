"""Live runs: the same log, statuses and table as a batch, request by request.

A live batch is made of calls that this worker makes itself. Answers are stored at least once a second, so that a kill
loses no more than that; whoever goes on reads what is stored and makes only the calls that have no answer yet. A worker
that is interrupted, or cannot store for a while, begins no further call, and stores the answers that were under way.
So does one that was held up for a third of its lease: another may be making the same calls.
"""

import contextlib
from collections.abc import Container, Iterator
from itertools import chain, count, repeat

import msgspec

from pipeline import planning
from pipeline.errors import AccountError, ConflictError, StoreError
from pipeline.events import AttemptOpened, Ended, OutputsStored, RawPart, Submitted
from pipeline.operations.batches.submitting import prepare
from pipeline.operations.workers.run import Run
from pipeline.providers import LiveAnswer, LiveClient, live_client, live_module
from pipeline.state import AT_PROVIDER, BatchState
from pipeline.storage import keys
from pipeline.storage.objects import measured_inside
from pipeline.storage.streams import Measured, compressed, decompressed, lines
from pipeline.wording import counted

_DEFAULT_RATE = 5.0
_LIVE = "live-"
_LONGEST_SILENCE = 5.0  # so long calls begin though nobody could store answers, or look who holds the run
_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # before answers are stored again that the store did not take


class _Request(msgspec.Struct, frozen=True):
    request_id: str
    body: msgspec.Raw


class _Named(msgspec.Struct, frozen=True):
    request_id: str


_requests = msgspec.json.Decoder(_Request)
_names = msgspec.json.Decoder(_Named)
_encoder = msgspec.json.Encoder()


def call_due(run: Run, *, only: Container[int] | None = None) -> int:
    """Make the calls of every live batch of the run, or of some segments; return how many batches are complete now."""
    complete = run.answered = 0
    for batch_id in tuple(run.refresh().batches.active):
        batch = run.refresh().batches[batch_id]  # it may have been cancelled while those before it were called
        if only is not None and batch.segment not in only:
            continue
        if batch.phase in AT_PROVIDER or batch in planning.due(run.state, run.worker.clock.now(), mended=True).submit:
            complete += _call(run, _started(run, batch))
        elif batch.phase == "planned":
            complete += _call(run, _started(run, prepare(run, batch)))
        if batch.batch_id in run.troubles:
            break
    return complete


def _started(run: Run, batch: BatchState) -> BatchState:
    """Open the batch's one attempt, unless it is open or somebody has cancelled it meanwhile."""
    if batch.phase in AT_PROVIDER or batch.cancel_asked:
        return batch
    attempt, name = batch.attempt + 1, f"live-{run.worker.clock.nonce()}"
    opened = AttemptOpened(batch_id=batch.batch_id, attempt=attempt, batch_key=name)
    submitted = Submitted(batch_id=batch.batch_id, attempt=attempt, remote_id=name)
    try:
        return run.decide(opened, submitted).batches[batch.batch_id]
    except ConflictError:
        return run.refresh().batches[batch.batch_id]


def _call(run: Run, batch: BatchState) -> bool:
    """Make the calls that have no stored answer; return whether every one has now."""
    if batch.phase not in AT_PROVIDER or batch.input is None:
        return False
    judge = run.config.judge
    rate = {(each.provider, each.model): each.requests_per_second for each in run.newest.rates}
    client = live_client(
        live_module(judge.provider).live_call(run.worker.settings, judge),
        rate=rate.get((judge.provider, judge.model), _DEFAULT_RATE),
        clock=run.worker.clock,
        patience=min(_LONGEST_SILENCE, run.worker.pace.lease / 3),
    )
    if batch.cancel_asked:
        return _finish(run, batch)
    answered = {name for name, _ in _stored(run, batch)}
    run.answered += len(answered)
    open_ = [request for request in _inputs(run, batch) if request.request_id not in answered]
    numbers = count(len(run.worker.store.list_from(keys.outputs(run.run_id, batch.batch_id))))
    try:
        calls = ((request.request_id, bytes(request.body)) for request in open_)
        for answers in client.answers(calls):
            _keep(run, batch, numbers, answers, client)
            run.answered += len(answers)
            run.worker.pulse()
            run.worker.check_halted()
            if not _may_go_on(run, batch):
                client.stop()
    except AccountError as error:
        run.troubles[batch.batch_id] = f"{judge.provider} refuses live calls: {error}"
        return False
    except BaseException:
        run.notify(batch, "waiting for the answers to calls under way; interrupt again to leave without them")
        for answers in client.rest():
            _keep(run, batch, numbers, answers, client)
            _hold(run)
        raise
    run.troubles.pop(batch.batch_id, None)
    return _finish(run, run.refresh().batches[batch.batch_id])


def _may_go_on(run: Run, batch: BatchState) -> bool:
    """Say whether further calls may be made: nobody asked for an end, and the store can be asked."""
    try:
        return run.keep() and not run.refresh().batches[batch.batch_id].cancel_asked
    except StoreError:
        return False


def _hold(run: Run) -> None:
    """Renew the lease if the store lets us; answers are stored with it or without."""
    with contextlib.suppress(StoreError):
        run.keep()


def _keep(run: Run, batch: BatchState, numbers: Iterator[int], answers: list[LiveAnswer], client: LiveClient) -> None:
    """Store the newest answers, byte for byte, under the next number that is free.

    They are paid for: while the store fails no further call begins, and storing is tried again until it works. A key
    that is taken after a try failed is taken by that try: nobody else writes under this worker's name.
    """
    body = _encoder.encode_lines(answers)
    for number in numbers if answers else ():
        part = f"{_LIVE}{number:06d}"
        key = keys.output(run.run_id, batch.batch_id, attempt=batch.attempt, part=part, source=run.worker.name)
        for failures, pause in enumerate(chain(_PAUSES, repeat(_PAUSES[-1]))):
            try:
                run.worker.store.put_stream(key, compressed([body]))
            except ConflictError:
                if failures:
                    return
                break
            except StoreError as error:
                client.stop()
                unstored = counted(len(answers), "answer")
                kept = "could not be stored yet, which is tried again: let this command run on"
                run.notify(batch, f"{unstored} {kept}; {error}", warning=True)
            else:
                return
            run.worker.clock.sleep(min(pause, run.worker.pace.lease / 3))
            _hold(run)


def _inputs(run: Run, batch: BatchState) -> Iterator[_Request]:
    assert batch.input is not None, "a started batch has its input stored"
    with run.worker.store.open(batch.input.key) as file:
        for line in lines(decompressed(file, key=batch.input.key)):
            if line:
                yield _requests.decode(line)


def _stored(run: Run, batch: BatchState) -> Iterator[tuple[str, bytes]]:
    """Yield every answer that is stored, under its request's id; the first one to a request counts."""
    seen: set[str] = set()
    for key in run.worker.store.list_from(keys.outputs(run.run_id, batch.batch_id)):
        if not keys.is_output(key, attempt=batch.attempt, part=_LIVE):
            continue
        with run.worker.store.open(key) as file:
            for line in lines(decompressed(file, key=key)):
                name = _names.decode(line).request_id if line else ""
                if line and name not in seen:
                    seen.add(name)
                    yield name, line


def _finish(run: Run, batch: BatchState) -> bool:
    """Gather the answers into one object and end the batch, once there is nothing more to call."""
    assert batch.input is not None, "a started batch has its input stored"
    gathered = [line + b"\n" for _, line in _stored(run, batch)]
    if len(gathered) < batch.input.requests and not batch.cancel_asked:
        return False
    key = keys.output(run.run_id, batch.batch_id, attempt=batch.attempt, part="output", source="live")
    measured = Measured(gathered)
    try:
        run.worker.store.put_stream(key, compressed(measured))
    except ConflictError:
        measured = measured_inside(run.worker.store, key)
    part = RawPart(name="output", key=key, digest=measured.digest(), bytes=measured.size)
    end = Ended(
        batch_id=batch.batch_id, end="cancelled" if batch.cancel_asked else "completed", status="called", parts={}
    )
    run.record(end, OutputsStored(batch_id=batch.batch_id, attempt=batch.attempt, parts=(part,)))
    return True
