"""Which of the frozen versions of an experiment stands for each of its runs."""

from collections.abc import Callable, Iterable

import msgspec

from pipeline.domain import Experiment, RunConfig
from pipeline.ids import Digest, RunId


class Offer(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What one frozen version says of a run."""

    config: RunConfig
    experiment: Experiment
    digest: Digest

    def differs(self, other: "Offer") -> bool:
        """Say whether another version would make another run of it."""
        return self.config != other.config


def standing(
    versions: Iterable[tuple[Digest, Experiment]], planned_by: Callable[[RunId], Digest | None]
) -> list[Offer]:
    """Return for each run, in the order of the file, the version that it was planned by, or the first.

    Two files that were frozen under one name at the same time may disagree. One that does not agree with a run as it
    was planned was refused: it says nothing of runs that are not planned.

    Args:
        versions: each frozen version under its name; one with fewer runs is older.
        planned_by: tells the digest of the configuration that a run was planned by, None if it is not planned; asked
            only where the versions leave it open, for the answer is in the run's log.
    """
    offered = _offered(versions)
    disputed = {run_id: offers for run_id, offers in offered.items() if any(map(offers[0].differs, offers[1:]))}
    plans = {run_id: planned_by(run_id) for run_id in disputed}
    refused = {
        offer.digest
        for run_id, offers in disputed.items()
        for offer in offers
        if plans[run_id] not in {None, offer.config.digest()}
    }
    found: list[Offer] = []
    for run_id, offers in offered.items():
        left = [offer for offer in offers if offer.digest not in refused]
        if run_id in disputed or not left:
            planned = plans[run_id] if run_id in disputed else planned_by(run_id)
            left = [offer for offer in offers if offer.config.digest() == planned] or left
        found += left[:1]
    return found


def _offered(versions: Iterable[tuple[Digest, Experiment]]) -> dict[RunId, list[Offer]]:
    """Return what the versions say of each run, the oldest version first."""
    offered: dict[RunId, list[Offer]] = {}
    for digest, experiment in sorted(versions, key=lambda version: len(version[1].runs)):
        for config in experiment.runs:
            offer = Offer(config=config, experiment=experiment, digest=digest)
            offered.setdefault(config.run_id, []).append(offer)
    return offered
