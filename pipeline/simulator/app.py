"""The web application: every wire's routes, and the simulator's own for the ledger and the faults."""

from collections.abc import Iterator
from itertools import islice

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pipeline.clock import Clock
from pipeline.errors import ConfigError
from pipeline.simulator.engine import Engine
from pipeline.simulator.faults import faults_from_json
from pipeline.simulator.settings import SimulatorSettings
from pipeline.simulator.wires import all_routes


def build_app(settings: SimulatorSettings, clock: Clock) -> Starlette:
    """Return the simulator as an application; `app.state.engine` is its inside."""
    return app_of(Engine(settings, clock))


def app_of(engine: Engine) -> Starlette:
    """Return the application that speaks for this engine."""
    own = _Own(engine)
    app = Starlette(
        routes=[
            Route("/simulator/ledger", own.ledger, methods=["GET"]),
            Route("/simulator/faults", own.faults, methods=["GET", "POST"]),
            *all_routes(engine),
        ],
        exception_handlers={404: _no_such_route, 405: _no_such_route},
    )
    app.state.engine = engine
    return app


async def _no_such_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    message = f"Invalid URL ({request.method} {request.url.path})"
    problem = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return _json({"error": problem}, status=status)


class _Own:
    """The simulator's own routes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ledger(self, request: Request) -> Response:
        """Answer with everything that was done; `?billed=no` leaves the long part out."""
        with_billed = request.query_params.get("billed", "yes") != "no"
        return StreamingResponse(self._ledger(with_billed=with_billed), media_type="application/json")

    def _ledger(self, *, with_billed: bool) -> Iterator[bytes]:
        ledger = self._engine.ledger
        short = {
            "totals": ledger.totals,
            "creates": ledger.creates,
            "batches": ledger.batches,
            "ended": ledger.ended,
            "files": ledger.files,
            "cancels": ledger.cancels,
        }
        encoded = msgspec.json.encode(short)
        if not with_billed:
            yield encoded
            return
        yield encoded[:-1] + b',"billed":['
        lines = ledger.billed_lines()
        comma = b""
        while block := list(islice(lines, 1000)):
            yield comma + b",".join(block)
            comma = b","
        yield b"]}"

    async def faults(self, request: Request) -> Response:
        """Replace the faults by those of the body, and answer with what is to come."""
        if request.method == "POST":
            try:
                self._engine.faults.replace(faults_from_json(await request.body()))
            except ConfigError as error:
                return _json({"error": str(error)}, status=400)
        return _json(self._engine.faults.left())


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")
