"""Tidying up at the provider, only after the rows that came of it are durable."""

from pipeline import planning
from pipeline.errors import ConfigError, ProviderError
from pipeline.events import RemoteCleaned
from pipeline.operations.batches.recording import facts
from pipeline.operations.workers.run import Run
from pipeline.state import BatchState


def is_to_clean(run: Run) -> bool:
    """Say whether inputs of published batches may lie at the provider, as of the last look at the log."""
    try:
        return bool(_due(run))
    except ConfigError:
        return False


def clean_due(run: Run) -> None:
    """Remove the inputs of published batches from the provider."""
    run.refresh()
    with facts(run) as records:
        for batch in _due(run):
            try:
                for file_id in batch.files:
                    run.provider.discard(file_id)
            except ProviderError as error:
                run.notify(batch, f"its input could not be removed from the provider: {error}", warning=True)
                continue
            records.add(RemoteCleaned(batch_id=batch.batch_id))


def _due(run: Run) -> list[BatchState]:
    """Return the batches to clean up after; the key of another account would be told that all is gone already."""
    batches = planning.to_clean(run.state)
    return [batch for batch in batches if batch.account in {None, run.provider.account}]
