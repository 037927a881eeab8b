"""Going on from answers: when a segment of conversations has ended, its next turn becomes further segments of the run.

What was answered is read from the published rows and what is due from the log, so that a crash between two turns loses
nothing and whoever goes on says the same thing to the same answers.
"""

from itertools import count

import numpy as np

from pipeline import planning
from pipeline.errors import ConflictError
from pipeline.events import AnyEvent, CancelAsked, TurnPlanned
from pipeline.operations.workers.requests import limits_within
from pipeline.operations.workers.run import Run
from pipeline.state import RunState

_SEGMENTS_A_COMMIT = 100


def is_to_continue(run: Run) -> bool:
    """Say whether the conversations of some segment can be gone on with now."""
    return bool(_due(run, run.state))


def continue_due(run: Run) -> int:
    """Plan the next turn of every segment that has ended; return of how many segments."""
    continued = 0
    while due := _due(run, run.refresh())[:_SEGMENTS_A_COMMIT]:
        try:
            run.decide(*_events(run, due))
        except ConflictError:
            continue
        continued += len(due)
    return continued


def _due(run: Run, state: RunState) -> list[tuple[int, range]]:
    """Return the segments that have ended, each with the positions of the requests that go on from it."""
    ended = ((index, state.segments[index]) for index in planning.unfollowed(state))
    found = ((index, run.renderer.following(each.start, each.start + each.requests)) for index, each in ended)
    return [(index, positions) for index, positions in found if positions]


def _events(run: Run, due: list[tuple[int, range]]) -> list[AnyEvent]:
    """Return the plan of the next turns; conversations that somebody cancelled go on in name only."""
    events: list[AnyEvent] = []
    numbers = count(len(run.state.segments))
    for index, positions in due:
        sizes = run.renderer.sizes(np.arange(positions.start, positions.stop))
        segments = planning.cut(sizes, limits_within(run.config, run.experiment), offset=positions.start)
        batches = planning.first_batches((next(numbers), segment) for segment in segments)
        events += (TurnPlanned(after=index, segments=segments), *batches)
        if any(batch.cancel_asked for batch in run.state.batches.values() if batch.segment == index):
            events.append(CancelAsked(batch_ids=tuple(batch.batch_id for batch in batches)))
    return events
