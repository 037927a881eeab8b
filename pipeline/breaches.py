"""What no worker may have written: steps of a run's log that its fold ignores, or that came before their time."""

from collections.abc import Iterable, Iterator, Mapping

from pipeline.events import AnyEvent, AttemptOpened, Commit, RemoteCleaned, RowsPublished
from pipeline.folding import fold
from pipeline.ids import BatchId, RunId
from pipeline.state import BatchState, RunState

Batches = Mapping[BatchId, BatchState]


def out_of_turn(run_id: RunId, commits: Iterable[Commit]) -> Iterator[tuple[int, str]]:
    """Yield each step that breaks the protocol, with the number of its commit.

    What a worker wrote after it had been replaced is no breach: the fold knows what to make of it.
    """
    state = RunState(run_id=run_id)
    for commit in commits:
        before, state = state, fold(state, (commit,))
        if state.stale == before.stale:
            for event in commit.events:
                problem = _breach(event, before.batches, state.batches)
                if problem is not None:
                    yield commit.seq, problem


def _breach(event: AnyEvent, before: Batches, after: Batches) -> str | None:
    match event:
        case AttemptOpened(batch_id=batch_id, attempt=attempt) if not _is_next(before, after, batch_id, attempt):
            return f"opens attempt {attempt} of {batch_id} out of turn: the one before may be at the provider"
        case RowsPublished(batch_id=batch_id) if batch_id in before and before[batch_id].phase == "published":
            return f"publishes {batch_id} a second time"
        case RemoteCleaned(batch_id=batch_id) if batch_id not in after or after[batch_id].phase != "published":
            return f"removes the input of {batch_id} at the provider before its rows are published"
        case _:
            return None


def _is_next(before: Batches, after: Batches, batch_id: BatchId, attempt: int) -> bool:
    """Say whether the attempt was the next one, and the batch was free to be sent."""
    last = before[batch_id].attempt if batch_id in before else 0
    return batch_id in after and attempt == last + 1 == after[batch_id].attempt
