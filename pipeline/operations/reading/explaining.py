"""Lineage: from one request back to the raw line, batch, attempt, prompt and samples it came from."""

from collections.abc import Iterator

import numpy as np

from pipeline.errors import ConfigError
from pipeline.ids import hinted_position
from pipeline.operations.batches.subjects import subjects_of
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.state import BatchState
from pipeline.storage.streams import decompressed, lines
from pipeline.storage.tables import stream
from pipeline.tasks import task_named

Explanation = dict[str, object]  # by name: what is asked about and how it is answered depends on the task


def explain(worker: Worker, request_id: str) -> Explanation:
    """Return where a request came from and what became of it; raises ConfigError if no run has it."""
    for name in worker.experiment_names():
        for run in worker.runs(name):
            run.refresh()
            position = _position(run, request_id)
            if position is not None:
                return _explained(run, request_id, position)
    raise ConfigError(
        f"no run in {worker.store.url} has a request {request_id!r}; `pairlog results` names them in request_id"
    )


def _position(run: Run, request_id: str) -> int | None:
    position = hinted_position(request_id)
    if position is None or position >= len(run.renderer):
        return None
    return position if run.renderer.request_ids(np.array([position])).to_pylist() == [request_id] else None


def _explained(run: Run, request_id: str, position: int) -> Explanation:
    batch = _last_batch(run, position)
    answered = list(task_named(run.config.task).columns([]))
    row = next(_rows(run, request_id, ["status", "reason", "content", "thoughts", *answered]), {})
    part, number, raw = _raw(run, batch, request_id) if batch else (None, None, None)
    return {
        "request_id": request_id,
        "experiment": run.experiment.name,
        "run_id": run.run_id,
        **_subject(run, position),
        "batch_id": batch.batch_id if batch else None,
        "attempt": batch.send if batch else None,
        "remote_batch_id": batch.remote_id if batch else None,
        "status": row.get("status") or "open",
        **{name: row.get(name) for name in answered},
        "reason": row.get("reason"),
        "messages": run.spoken(position),
        "thoughts": row.get("thoughts"),
        "content": row.get("content"),
        "requests_object": batch.input.key if batch and batch.input else None,
        "output_object": part,
        "output_line": number,
        "raw_output": raw,
        "raw_request": run.renderer.line(position).decode() or None,
    }


def _subject(run: Run, position: int) -> dict[str, object]:
    """Return what the request is about."""
    at = np.array([position])
    columns = subjects_of(run).columns(at, run.renderer.names(at), [None])
    return {name: column[0].as_py() for name, column in columns.items() if not name.startswith("winner")}


def _last_batch(run: Run, position: int) -> BatchState | None:
    """Return the last batch the request was in."""
    found = [batch for batch in run.state.batches.values() if position in run.members(batch)]
    return found[-1] if found else None


def _rows(run: Run, request_id: str, columns: list[str]) -> Iterator[dict[str, object]]:
    keys = [batch.rows_key for batch in run.state.batches.values() if batch.rows_key]
    for block in stream(run.worker.store, keys, columns=["request_id", *columns]):
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
