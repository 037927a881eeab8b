"""From commits to states: pure, total, and the only way to a state.

A fold changes drafts of its own of the batches that its events are about; nobody else sees one before it is frozen.
"""

from collections.abc import Container, Iterable

from msgspec.structs import replace

from pipeline.events import BatchPlanned, CancelAsked, Commit, Resubmitted, RunPlanned, TurnPlanned
from pipeline.ids import BatchId
from pipeline.rules import RULES, RULES_OF_THE_REPLACED, ask_to_cancel, planned
from pipeline.state import BatchDraft, Batches, RunState


def fold(state: RunState, commits: Iterable[Commit]) -> RunState:
    """Return the state after the commits.

    A writer that had lost its epoch opens, publishes and ends nothing any more; what it did before it learned of that
    (its uploads, its sending and what became of it) is kept.
    """
    drafts = _Drafts(state.batches)
    plan, turns, number, epoch, stale = state.plan, state.turns, state.commits, state.epoch, state.stale
    version, version_at = state.version, state.version_at
    for commit in commits:
        number += 1
        is_stale, rules = False, RULES
        if commit.epoch > epoch:
            epoch = commit.epoch
        elif commit.epoch < epoch:
            is_stale, rules = True, RULES_OF_THE_REPLACED
            stale += 1
        for event in commit.events:
            rule = rules.get(type(event))
            if rule is not None:
                name = event.batch_id  # type: ignore[union-attr]  # rules are for events of one batch
                batch = drafts.get(name) or drafts.begun(name)
                if batch is not None:
                    rule(batch, event, commit)
            elif isinstance(event, RunPlanned):
                plan = _asked_for(plan, event)
                if version is None:
                    version, version_at = event.experiment_digest, commit.at
            elif isinstance(event, Resubmitted):
                version, version_at = event.experiment_digest, commit.at
            elif is_stale:
                continue
            elif isinstance(event, BatchPlanned):
                drafts.plan(event)
            elif isinstance(event, CancelAsked):
                for batch in filter(None, map(drafts.begun, dict.fromkeys(event.batch_ids))):
                    ask_to_cancel(batch)
            elif isinstance(event, TurnPlanned) and event.after not in (turn.after for turn in turns):
                turns = (*turns, event)
    return replace(
        state,
        batches=drafts.finished(),
        plan=plan,
        version=version,
        version_at=version_at,
        turns=turns,
        commits=number,
        epoch=epoch,
        stale=stale,
    )


class _Drafts(dict[BatchId, BatchDraft]):
    """The batches that a fold has touched so far."""

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self._before = batches
        self._known: Container[object] = batches or ()
        self._planned = len(batches)

    def begun(self, batch_id: BatchId) -> BatchDraft | None:
        """Return the draft of a batch, None if it was never planned."""
        if batch_id not in self and batch_id in self._known:
            self[batch_id] = self._before[batch_id].draft()
        return self.get(batch_id)

    def plan(self, event: BatchPlanned) -> None:
        """Begin a batch, unless it was planned before."""
        if event.batch_id not in self and event.batch_id not in self._known:
            self[event.batch_id] = planned(event, self._planned)
            self._planned += 1

    def finished(self) -> Batches:
        """Return every batch as it is now."""
        return self._before.changed({batch_id: draft.finished() for batch_id, draft in self.items()})


def _asked_for(plan: RunPlanned | None, event: RunPlanned) -> RunPlanned:
    """Return the plan: the first one stands, but a run planned segment by segment may be asked for as a whole later."""
    if plan is None:
        return event
    if event.asked in {plan.asked, "segments"} or plan.run_digest != event.run_digest:
        return plan
    return replace(plan, asked="experiment", experiment_digest=event.experiment_digest)
