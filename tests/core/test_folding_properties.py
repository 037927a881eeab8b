"""What holds of the fold whatever several workers wrote, in whatever order, some of them after they were replaced."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.domain import Counts
from pipeline.events import (
    Adopted,
    AnyEvent,
    AttemptOpened,
    BatchPlanned,
    CancelAsked,
    Commit,
    Ended,
    FileUploaded,
    Held,
    InputStored,
    LineFault,
    OutputsStored,
    Refused,
    RemoteCleaned,
    RowsPublished,
    StatusChanged,
    Submitted,
    Uncertain,
    Voided,
)
from pipeline.folding import fold
from pipeline.ids import Digest
from pipeline.state import BatchState, RunState
from tests.core.test_folding import BATCH, RUN, START, a_plan

PLANNED = BatchPlanned(batch_id=BATCH, segment=0, send=1, requests=3)
MANY = settings(max_examples=500)
ATTEMPTS, REMOTES = st.integers(1, 2), st.sampled_from(["r1", "r2", "r3"])
WRITERS, BOOTS = st.sampled_from(["one", "other"]), st.sampled_from(["this", "that"])


def about(kind: type[AnyEvent], **given_: st.SearchStrategy[object]) -> st.SearchStrategy[AnyEvent]:
    return st.builds(kind, batch_id=st.just(BATCH), **given_)


def of_an_attempt(kind: type[AnyEvent], **given_: st.SearchStrategy[object]) -> st.SearchStrategy[AnyEvent]:
    return about(kind, attempt=ATTEMPTS, **given_)


REASON = st.just("why")
EVENTS: st.SearchStrategy[AnyEvent] = st.one_of(
    st.just(PLANNED),
    about(InputStored, key=st.just("k"), digest=st.just(Digest("d")), bytes=st.just(9), requests=st.just(3)),
    of_an_attempt(AttemptOpened, batch_key=st.just("pl"), account=st.sampled_from([None, "a"])),
    of_an_attempt(FileUploaded, file_id=st.sampled_from(["f1", "f2"])),
    of_an_attempt(Submitted, remote_id=REMOTES),
    of_an_attempt(Adopted, remote_id=REMOTES, proven=st.booleans()),
    of_an_attempt(Uncertain, reason=REASON),
    of_an_attempt(Voided, reason=REASON),
    of_an_attempt(Held, reason=REASON),
    of_an_attempt(Refused, fault=st.sampled_from(["account", "rate", "content"]), reason=REASON),
    about(StatusChanged, status=st.just("busy"), running=st.booleans()),
    about(
        Ended,
        end=st.sampled_from(["completed", "failed", "expired"]),
        status=st.just("over"),
        parts=st.sampled_from([{}, {"output": "o"}]),
        fault=st.sampled_from([None, "account", "rate", "content"]),
        faults=st.sampled_from([(), (LineFault(line=1, reason="bad"),)]),
    ),
    of_an_attempt(OutputsStored, parts=st.just(())),
    about(
        RowsPublished,
        key=st.just("k"),
        digest=st.just(Digest("d")),
        counts=st.sampled_from([Counts(planned=3, ok=3), Counts(planned=1, ok=1)]),
    ),
    about(RemoteCleaned),
    st.just(CancelAsked(batch_ids=(BATCH,))),
)


STEPS: tuple[AnyEvent, ...] = (
    InputStored(batch_id=BATCH, key="k", digest=Digest("d"), bytes=9, requests=3),
    AttemptOpened(batch_id=BATCH, attempt=1, batch_key="pl"),
    Uncertain(batch_id=BATCH, attempt=1, reason="why"),
    Submitted(batch_id=BATCH, attempt=1, remote_id="r1"),
    Ended(batch_id=BATCH, end="completed", status="over", parts={"output": "o"}),
    OutputsStored(batch_id=BATCH, attempt=1, parts=()),
    RowsPublished(batch_id=BATCH, key="k", digest=Digest("d"), counts=Counts(planned=3, ok=3)),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    """Commits of two workers on two machines, either of which may have been replaced and not know it yet."""
    made, epoch = [a_commit(a_plan(), PLANNED, *STEPS[: draw(st.integers(0, len(STEPS)))])], 0
    for events in draw(st.lists(st.lists(EVENTS, min_size=1, max_size=3), max_size=14)):
        epoch = max(0, epoch + draw(st.integers(-1, 1)))
        made.append(a_commit(*events, seq=len(made), epoch=epoch, writer=draw(WRITERS), boot=draw(BOOTS)))
    return made


def a_commit(*events: AnyEvent, seq: int = 0, epoch: int = 0, writer: str = "one", boot: str = "this") -> Commit:
    return Commit(
        commit_id=f"c{seq}", run_id=RUN, seq=seq, writer=writer, epoch=epoch, at=START, boot=boot, uptime=float(seq),
        prev=None, events=events,
    )  # fmt: skip


def one_by_one(commits: list[Commit]) -> list[Commit]:
    """Return the same history with a commit for every event."""
    return [msgspec.structs.replace(commit, events=(event,)) for commit in commits for event in commit.events]


def states(commits: list[Commit]) -> list[tuple[RunState, Commit, RunState]]:
    """Return every commit with the states before and after it."""
    state, found = RunState(run_id=RUN), []
    for commit in commits:
        following = fold(state, [commit])
        found.append((state, commit, following))
        state = following
    return found


def known(batch: BatchState) -> set[str | None]:
    return {batch.remote_id, *batch.superseded, *batch.spent}


@MANY
@given(histories())
def test_a_batch_that_the_provider_has_for_certain_is_never_forgotten(commits: list[Commit]) -> None:
    certain: set[str] = set()
    for before, commit, after in states(commits):
        made = [event for event in commit.events if isinstance(event, Submitted | Adopted)]
        if BATCH in before.batches:
            certain |= {event.remote_id for event in made if isinstance(event, Submitted) or event.proven}
        assert certain <= known(after.batches[BATCH])


@MANY
@given(histories())
def test_a_worker_that_was_replaced_opens_no_attempt_and_publishes_nothing(commits: list[Commit]) -> None:
    for before, _, after in states(commits):
        if after.stale > before.stale:
            one, other = before.batches[BATCH], after.batches[BATCH]
            assert (one.attempt, one.rows, one.counts) == (other.attempt, other.rows, other.counts)
            assert other.phase != "submitting" or one.phase == "submitting"


@MANY
@given(histories())
def test_an_attempt_is_opened_only_where_the_one_before_is_settled(commits: list[Commit]) -> None:
    for _, commit, after in states(one_by_one(commits)):
        opened = [event for event in commit.events if isinstance(event, AttemptOpened)]
        if opened and after.batches[BATCH].phase == "submitting":
            assert after.batches[BATCH].remote_id is None


@MANY
@given(histories())
def test_published_is_for_ever_and_no_request_is_counted_twice(commits: list[Commit]) -> None:
    for before, _, after in states(commits):
        if BATCH in before.batches and before.batches[BATCH].phase == "published":
            assert after.batches[BATCH].phase == "published"
            assert after.batches[BATCH].counts == before.batches[BATCH].counts
        assert 0 <= after.counts.ended <= after.counts.planned


@MANY
@given(histories())
def test_a_guess_proves_nothing_and_displaces_nothing_that_is_proven(commits: list[Commit]) -> None:
    for before, commit, after in states(one_by_one(commits)):
        if not isinstance(commit.events[0], Adopted) or commit.events[0].proven:
            continue
        one, other = before.batches[BATCH], after.batches[BATCH]
        if one.remote_id is not None and one.proven:
            assert (other.remote_id, other.proven) == (one.remote_id, True)
        elif one.remote_id != other.remote_id:
            assert (other.remote_id, other.proven) == (commit.events[0].remote_id, False)
