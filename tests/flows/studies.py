"""What the flow tests do: run a study on a simulator and read what came out."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.ids import ExperimentName
from pipeline.operations.reading.auditing import audit
from pipeline.operations.reading.reporting import status
from pipeline.operations.reading.results import table_of
from pipeline.operations.resuming import Headway, resume, submit
from pipeline.operations.starting import check_start, open_planned
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.simulator.ledger import Ledger
from pipeline.state import BatchState


def submitted(worker: Worker, file: Path) -> list[Run]:
    planned = plan(str(file), worker=worker)
    check_start(worker, planned)
    runs = open_planned(worker, planned)
    for run in runs:
        submit(run)
    return runs


def finished(worker: Worker, file: Path, *, interval: float = 0.02) -> Headway:
    return resume(worker, submitted(worker, file), interval=interval)


def rows(worker: Worker, name: str = "essays") -> pa.Table:
    return table_of(worker, ExperimentName(name))


def column(table: pa.Table, name: str) -> list[Any]:
    return list(table.column(name).to_pylist())


def only_batch(run: Run) -> BatchState:
    (batch,) = run.refresh().batches.values()
    return batch


def counts(worker: Worker, name: str = "essays") -> dict[str, int]:
    return status(worker, [ExperimentName(name)]).experiments[0].counts


def problems(worker: Worker) -> list[str]:
    return [f"{finding.key}: {finding.problem}" for finding in audit(worker, []).findings]


def check_against_ledger(worker: Worker, ledger: Ledger, name: str = "essays") -> None:
    """Everything that was paid for once is in the table once, with the winner the simulator chose."""
    table = rows(worker, name)
    assert ledger.paid_twice() == []
    billed = {entry.custom_id: entry for entry in ledger.billed() if entry.delivered}
    ids = column(table, "request_id")
    assert len(ids) == len(set(ids))
    for row in table.select(["request_id", "status", "outcome"]).to_pylist():
        if row["status"] == "ok":
            assert billed[row["request_id"]].outcome == row["outcome"]
    found = problems(worker)
    assert found == [], found


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
