"""Lineage: from one request back to the raw line, batch, attempt, prompt and samples it came from."""

from collections.abc import Iterator

import msgspec
import numpy as np

from pipeline.errors import ConfigError
from pipeline.ids import hinted_position
from pipeline.operations.worker import Run, Worker
from pipeline.state import BatchState
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import stream


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one request."""

    request_id: str
    experiment: str
    run_id: str
    pair_id: str
    first_id: str
    second_id: str
    batch_id: str | None
    attempt: int | None
    remote_batch_id: str | None
    status: str
    outcome: str | None
    reason: str | None
    requests_object: str | None
    output_object: str | None
    output_line: int | None
    raw_output: str | None
    raw_request: str


def explain(worker: Worker, request_id: str) -> Explanation:
    """Return where a request came from and what became of it; raises ConfigError if no run has it."""
    for name in worker.experiment_names():
        for run in worker.runs(name):
            run.refresh()
            position = _position(run, request_id)
            if position is not None:
                return _explained(run, request_id, position)
    raise ConfigError(f"no run in {worker.store.url} has a request {request_id!r}")


def _position(run: Run, request_id: str) -> int | None:
    position = hinted_position(request_id)
    if position is None or position >= len(run.renderer):
        return None
    return position if run.renderer.request_ids(np.array([position])) == [request_id] else None


def _explained(run: Run, request_id: str, position: int) -> Explanation:
    renderer, ids = run.renderer, run.material.ids
    batch = _last_batch(run, position)
    row = next(_rows(run, request_id), {})
    part, number, raw = _raw(run, batch, request_id) if batch else (None, None, None)
    return Explanation(
        request_id=request_id,
        experiment=run.experiment.name,
        run_id=run.run_id,
        pair_id=renderer.pair_ids(np.array([position]))[0],
        first_id=ids[renderer.first[position]],
        second_id=ids[renderer.second[position]],
        batch_id=batch.batch_id if batch else None,
        attempt=batch.send if batch else None,
        remote_batch_id=batch.remote_id if batch else None,
        status=row.get("status") or "open",
        outcome=row.get("outcome"),
        reason=row.get("reason"),
        requests_object=batch.input.key if batch and batch.input else None,
        output_object=part,
        output_line=number,
        raw_output=raw,
        raw_request=renderer.line(position).decode(),
    )


def _last_batch(run: Run, position: int) -> BatchState | None:
    """Return the last batch the request was in."""
    found = [batch for batch in run.state.batches.values() if position in run.members(batch)]
    return found[-1] if found else None


def _rows(run: Run, request_id: str) -> Iterator[dict[str, str | None]]:
    keys = [batch.rows.key for batch in run.state.batches.values() if batch.rows and batch.rows.key]
    for block in stream(run.worker.store, keys, columns=["request_id", "status", "outcome", "reason"]):
        yield from (row for row in block.to_pylist() if row["request_id"] == request_id)


def _raw(run: Run, batch: BatchState, request_id: str) -> tuple[str | None, int | None, str | None]:
    """Return the object, the line number among its non-blank lines, and the line that answers the request."""
    wanted = request_id.encode()
    for part in batch.parts:
        with run.worker.store.open(part.key) as file:
            for number, line in enumerate(lines(decompressed(file, key=part.key)), start=1):
                if wanted in line:
                    return part.key, number, line.decode(errors="replace")
    return None, None, None
