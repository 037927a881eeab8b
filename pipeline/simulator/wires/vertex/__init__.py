"""Vertex AI's wire: batch prediction jobs and the bucket they work on, under `/vertex`; the bucket also at the root.

Odd about it: lines have no id, so that a request is echoed beside its answer; an error is a text in `status`; no key is
asked for, because what a client sends to an emulator is anonymous. Its ledger notes the label `request_id` as the id.
"""

from http import HTTPStatus

import msgspec
from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._google.lines import Envelope, GoogleLines
from pipeline.simulator.wires._google.speaking import time_of
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.vertex.jobs import Jobs
from pipeline.simulator.wires.vertex.storage import Storage

WIRE = "vertex"


def _read(row: JsonObject) -> tuple[str, JsonObject]:
    request = row.get("request")
    if not isinstance(request, dict) or set(row) - {"request"}:
        raise ValueError("expected an object of request")
    labels = request.get("labels")
    return str(labels.get("request_id", "")) if isinstance(labels, dict) else "", request


class _Wrapping:
    """Writes lines with the time at which they were written."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, row: JsonObject, result: JsonObject | Problem) -> JsonObject:
        status = _said(result) if isinstance(result, Problem) else ""
        response = {} if isinstance(result, Problem) else result
        at = time_of(self._engine.now())
        return {"status": status, "processed_time": at, "request": row["request"], "response": response}


def _said(problem: Problem) -> str:
    error = {"code": problem.status, "message": problem.message, "status": problem.kind}
    return f"{HTTPStatus(problem.status).phrase}: {msgspec.json.encode({'error': error}).decode()}"


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    envelope = Envelope(read=_read, wrap=_Wrapping(engine), most_requests=200_000, most_bytes=10**9)
    engine.register(WIRE, GoogleLines(engine, envelope, all_or_nothing=False))
    storage = Storage(engine, WIRE)
    return [*Jobs(engine, WIRE, storage).routes("/vertex"), *storage.routes("/vertex"), *storage.routes("")]
