"""Tidying up at the provider, only after the rows that came of it are durable."""

from pipeline import planning
from pipeline.errors import ProviderError
from pipeline.events import RemoteCleaned
from pipeline.operations.recording import facts
from pipeline.operations.worker import Run


def clean_due(run: Run) -> int:
    """Remove the inputs of published batches from the provider; return how many are gone."""
    cleaned = 0
    with facts(run) as records:
        for batch in planning.to_clean(run.refresh()):
            assert batch.file_id is not None, "only what was uploaded is removed"
            try:
                run.provider.discard(batch.file_id)
            except ProviderError as error:
                run.notify(batch, f"its input could not be removed from the provider: {error}", warning=True)
                continue
            records.add(RemoteCleaned(batch_id=batch.batch_id))
            cleaned += 1
    return cleaned
