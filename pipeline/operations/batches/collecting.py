"""Polling and fetching: what the provider says, and what came back, byte for byte, before anyone reads it."""

import contextlib
import re
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import msgspec

from pipeline import planning
from pipeline.errors import AccountError, ConflictError, ProviderError, RejectedError, UnavailableError
from pipeline.events import (
    AnyEvent,
    End,
    Ended,
    LineFault,
    OutputsStored,
    RawPart,
    StatusChanged,
    is_late,
    is_of_errors,
)
from pipeline.ids import BatchId
from pipeline.operations.batches.late import late_parts
from pipeline.operations.batches.recording import facts
from pipeline.operations.batches.settling import hold
from pipeline.operations.workers.run import Run
from pipeline.providers import Provider, RemoteBatch
from pipeline.state import BatchState
from pipeline.storage import keys
from pipeline.storage.log import in_commits
from pipeline.storage.objects import measured_inside
from pipeline.storage.streams import Measured, compressed

_EVENTS_A_COMMIT = 100
_FAULTS_KEPT = 200
_LONGEST_REASON = 200  # so many faults of so many characters fit into one commit, however they are written there
_TELLING = 2**20
_OBJECT = re.compile(rb'^[ \t]*\{\s*"', re.MULTILINE)


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A batch as the provider shows it, and why it would not stop it if it was asked to."""

    remote: RemoteBatch
    uncancelled: ProviderError | None = None


def poll_due(run: Run, *, only: Container[BatchId] | None = None) -> int:
    """Ask after every batch at its provider; append what changed, in few commits; return how many ended.

    Where the provider cannot be reached, batches that were not asked after yet are left for the next round.

    Args:
        only: ask after nothing but these batches.
    """
    due = planning.due(run.refresh(), run.worker.clock.now()).poll
    asked = [batch for batch in due if only is None or batch.batch_id in only]
    remotes = _remotes(run, asked)
    _stop_doubles(run, asked)
    while True:
        events: list[AnyEvent] = []
        for batch in planning.due(run.refresh(), run.worker.clock.now()).poll:
            remote = remotes.get(batch.batch_id)
            if remote is not None and remote.remote_id == batch.remote_id:
                events += _news(run, batch, remote)
        try:
            for together in in_commits(events, most=_EVENTS_A_COMMIT):
                run.decide(*together)
        except ConflictError:
            continue
        return sum(isinstance(event, Ended) for event in events)


def _remotes(run: Run, batches: list[BatchState]) -> dict[BatchId, RemoteBatch]:
    """Return what the provider says of the batches that it could be asked about."""
    if not batches or not run.is_reachable:
        return {}
    provider = run.provider

    def ask(batch: BatchState) -> _Answer | ProviderError | None:
        answer = _answer(provider, batch) if run.is_reachable else None
        if isinstance(answer, ProviderError):
            run.missed(answer)
        return answer

    if run.worker.at_once == 1:
        answers = list(map(ask, batches))
    else:
        with ThreadPoolExecutor(run.worker.at_once) as pool:
            answers = list(pool.map(ask, batches))
    heard = {batch.batch_id: _heard(run, batch, said) for batch, said in zip(batches, answers, strict=True) if said}
    return {batch_id: remote for batch_id, remote in heard.items() if remote is not None}


def _stop_doubles(run: Run, batches: list[BatchState]) -> None:
    """Cancel what turned up beside a batch for attempts given up; its answers, as far as it got, are used."""
    for remote_id in (remote_id for batch in batches for remote_id in batch.superseded):
        if remote_id not in run.stopped and run.is_reachable:
            with contextlib.suppress(ProviderError):
                run.provider.cancel(remote_id)
                run.stopped.add(remote_id)


def _answer(provider: Provider, batch: BatchState) -> _Answer | ProviderError:
    """Ask after one batch, and ask for its end where a person wants that; that this is refused says nothing of it."""
    assert batch.remote_id is not None, "a submitted batch has the provider's id"
    try:
        remote = provider.status(batch.remote_id)
    except ProviderError as error:
        return error
    if batch.cancel_asked and batch.proven and remote.end is None and remote.remote_id == batch.remote_id:
        try:
            provider.cancel(remote.remote_id)
        except ProviderError as error:
            return _Answer(remote=remote, uncancelled=error)
    return _Answer(remote=remote)


def _heard(run: Run, batch: BatchState, answer: _Answer | ProviderError) -> RemoteBatch | None:
    """Return the batch as the provider shows it, or take note of why it does not."""
    match answer:
        case _Answer(remote=remote) if remote.remote_id != batch.remote_id:
            another = f"was asked after as {batch.remote_id}, and the provider showed {remote.remote_id} instead"
            run.notify(batch, another, warning=True)
        case _Answer(remote=remote, uncancelled=error):
            run.troubles.pop(batch.batch_id, None)
            if error is not None:
                run.notify(batch, f"goes on, since the provider does not stop it: {error}", warning=True)
            return remote
        case AccountError():
            run.troubles[batch.batch_id] = f"{batch.remote_id} cannot be polled: {answer}"
        case RejectedError():
            _not_shown(run, batch, answer)
        case _:
            run.notify(batch, f"cannot be polled now: {answer}", warning=True)
    return None


def _not_shown(run: Run, batch: BatchState, error: RejectedError) -> None:
    """Explain a batch that the provider does not show: by another key, or else hold it for a person."""
    used = run.provider.account
    if batch.account is not None and batch.account != used:
        run.troubles[batch.batch_id] = (
            f"{batch.remote_id} was submitted with another key or in another region (fingerprint {batch.account}, "
            f"now {used}); set those of that account"
        )
    else:
        hold(run, batch, f"the provider does not show {batch.remote_id} to this key: {error}")


def _news(run: Run, batch: BatchState, remote: RemoteBatch) -> list[AnyEvent]:
    """Return what the log does not know yet.

    What decides about money is whether an end is believed: requests without an answer are then sent again, or end.
    Where answers must be there and are not shown, an end *waits* for three quiet periods and the batch is then *held*
    for a person. Where they may be there, it *waits* as long and then *ends* with what is shown. Where the provider
    shows them, or tells that there are none, it simply *ends*; so does a batch that failed.
    """
    if remote.end is None:
        is_known = remote.status == batch.remote_status and not batch.awaits_files
        return (
            [] if is_known else [StatusChanged(batch_id=batch.batch_id, status=remote.status, running=remote.running)]
        )
    unseen = _must_have_answers(remote) or _may_have_answers(remote)
    if unseen and not batch.awaits_files:
        return [StatusChanged(batch_id=batch.batch_id, status=remote.status, awaits_files=True)]
    if unseen and not _waited(run, batch, batch.status_at):
        return []
    if _must_have_answers(remote):
        hold(run, batch, f"the provider calls {batch.remote_id} {remote.status} but offers neither answers nor errors")
        return []
    run.notify(batch, remote.status)
    return [_ended(run, batch, remote, remote.end)]


def _must_have_answers(remote: RemoteBatch) -> bool:
    """Say whether answers are missing: the provider counts some, or has done it all, and shows no file."""
    is_counted = remote.lines.get("output", 0) > 0 and "output" not in remote.parts
    return is_counted or (remote.end == "completed" and not remote.parts)


def _may_have_answers(remote: RemoteBatch) -> bool:
    """Say whether answers may turn up after the end: the provider tells neither where they are nor that none are."""
    told = {*remote.parts, *remote.lines} - {"error"}
    return remote.end in {"completed", "expired", "cancelled"} and not told


def _ended(run: Run, batch: BatchState, remote: RemoteBatch, end: End) -> Ended:
    waits = remote.fault in {"account", "rate"}
    return Ended(
        batch_id=batch.batch_id,
        end=end,
        status=remote.status,
        parts=dict(remote.parts),
        faults=tuple(map(_shortened, remote.faults[:_FAULTS_KEPT])),
        fault=remote.fault,
        not_before=run.worker.clock.now() + timedelta(seconds=run.worker.pace.pause) if waits else None,
        lines=dict(remote.lines),
    )


def _shortened(fault: LineFault) -> LineFault:
    return LineFault(line=fault.line, reason=fault.reason[:_LONGEST_REASON])


def collect_due(run: Run, *, only: Container[int] | None = None) -> None:
    """Fetch what came back for every ended batch, or those of some segments."""
    with facts(run) as records:
        for batch in planning.due(run.refresh(), run.worker.clock.now(), only=only).collect:
            if not run.is_reachable or not run.keep():
                break
            records.begin(batch.input.bytes if batch.input else 0)
            parts = _fetched(run, batch)
            if parts is not None:
                run.troubles.pop(batch.batch_id, None)
                stored = OutputsStored(batch_id=batch.batch_id, attempt=batch.attempt, parts=parts)
                records.add(stored, size=sum(part.bytes for part in parts))


class _Missed(msgspec.Struct, frozen=True, kw_only=True):
    """A part that could not be fetched, and why."""

    name: str
    error: ProviderError

    def can_be_done_without(self) -> bool:
        """Say whether no answer of the batch itself is in it: a list of errors, or what is gone of a late batch."""
        is_gone = isinstance(self.error, RejectedError) and self.error.status in {404, 410}
        return isinstance(self.error, RejectedError) and (is_of_errors(self.name) or (is_late(self.name) and is_gone))


def _fetched(run: Run, batch: BatchState) -> tuple[RawPart, ...] | None:
    """Store every part of what came back, answers first; return None if they cannot be had yet.

    Nothing keeps a part that can be had from being stored: the provider deletes it one day.
    """
    try:
        late = late_parts(run, batch)
    except ProviderError as error:
        _store_own(run, batch)
        _not_fetched(run, batch, error)
        return None
    if late is None:
        _store_own(run, batch)
        return None
    found = sorted({**batch.remote_parts, **late}.items(), key=lambda part: (is_late(part[0]), is_of_errors(part[0])))
    tried = [_tried(run, batch, name, handle) for name, handle in found]
    parts = sorted((part for part in tried if isinstance(part, RawPart)), key=lambda part: part.name)
    missed = [part for part in tried if isinstance(part, _Missed)]
    if not missed:
        return tuple(parts)
    needed = [part for part in missed if not part.can_be_done_without()]
    if needed or all(is_of_errors(part.name) for part in parts) or not _waited(run, batch, batch.ended_at):
        _not_fetched(run, batch, (needed or missed)[0].error)
        return None
    for part in missed:
        run.notify(batch, f"goes on without its part {part.name}, which cannot be fetched: {part.error}", warning=True)
    return tuple(parts)


def _store_own(run: Run, batch: BatchState) -> None:
    """Store what came back for the batch itself, unless it is stored, while others are still waited for."""
    for name, handle in batch.remote_parts.items():
        if not run.worker.store.exists(_key(run, batch, name, handle)):
            missed = _tried(run, batch, name, handle)
            if isinstance(missed, _Missed):
                run.notify(batch, f"its part {name} could not be fetched: {missed.error}", warning=True)


def _tried(run: Run, batch: BatchState, name: str, handle: str) -> RawPart | _Missed:
    try:
        return _fetch(run, batch, name, handle)
    except ProviderError as error:
        return _Missed(name=name, error=error)


def _not_fetched(run: Run, batch: BatchState, error: ProviderError) -> None:
    """Leave the batch for the next round, or hold it when its answers stay out of reach."""
    run.missed(error)
    run.notify(batch, f"could not be fetched: {error}", warning=True)
    if isinstance(error, AccountError):
        run.troubles[batch.batch_id] = f"{batch.remote_id} cannot be fetched: {error}"
    if isinstance(error, RejectedError) and _waited(run, batch, batch.ended_at):
        hold(run, batch, f"its answers cannot be fetched: {error}")


def _waited(run: Run, batch: BatchState, said_at: datetime | None) -> bool:
    """Say whether files that are announced have been waited for long enough: three quiet periods, half an hour."""
    return run.has_lasted(batch, said_at, planning.patience_for_files(run.worker.quiet).total_seconds())


def _fetch(run: Run, batch: BatchState, name: str, handle: str) -> RawPart:
    """Store one part whole and return its name and digest; one that is stored already is read, not fetched."""
    key = _key(run, batch, name, handle)
    store = run.worker.store
    if not store.exists(key):
        fetched = Measured(_whole(run, batch, name, run.provider.download(handle)))
        try:
            store.put_stream(key, compressed(fetched))
            return RawPart(name=name, key=key, digest=fetched.digest(), bytes=fetched.size)
        except ConflictError:
            run.notify(batch, f"{name} was stored by another worker")
    stored = measured_inside(store, key)
    return RawPart(name=name, key=key, digest=stored.digest(), bytes=stored.size)


def _key(run: Run, batch: BatchState, name: str, handle: str) -> str:
    return keys.output(run.run_id, batch.batch_id, attempt=batch.attempt, part=name, source=handle)


def _whole(run: Run, batch: BatchState, name: str, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Pass the chunks on; raise a ProviderError, so that nothing is stored, if they cannot be the part's whole bytes.

    A page of another server, an error in place of the file and a body that was cut at a line's end look like success.
    What stays short for long is taken as it is: the requests without a line are sent again.
    """
    lines, begun, last = 0, b"", b"\n"
    for chunk in chunks:
        begun = begun if len(begun) >= _TELLING else (begun + chunk).lstrip(b"\xef\xbb\xbf \t\r\n")[:_TELLING]
        if len(begun) >= _TELLING:
            _check_objects(begun, name)
        lines += chunk.count(b"\n")
        last = chunk[-1:] or last
        yield chunk
    _check_objects(begun, name)
    lines += last != b"\n"
    expected = batch.remote_lines.get(name, 0)
    if (lines < expected or lines <= 1 < batch.requests) and not _is_readable(run, _first_object(begun)):
        raise RejectedError(f"{name} holds something else instead of lines: {begun[:200].decode(errors='replace')}")
    is_empty = not lines and not is_of_errors(name) and name not in batch.remote_lines
    if (lines < expected or is_empty) and not _waited(run, batch, batch.ended_at):
        raise UnavailableError(f"{name} has {lines} lines, but the provider reports {expected or 'some'}")


def _check_objects(begun: bytes, name: str) -> None:
    """Raise RejectedError if what a part begins with has no line that begins as an object: others may be damaged."""
    if begun and not _OBJECT.search(begun):
        raise RejectedError(f"{name} does not hold lines of JSON")


def _first_object(begun: bytes) -> bytes:
    """Return the first line that begins as an object."""
    found = _OBJECT.search(begun)
    return begun[found.start() :].partition(b"\n")[0] if found else b""


def _is_readable(run: Run, line: bytes) -> bool:
    """Say whether the line is one that the provider may have written."""
    try:
        run.decode(line)
    except (ValueError, RecursionError):
        return not line or len(line) >= _TELLING
    return True
