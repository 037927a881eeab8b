"""The wire of the Gemini Developer API: files, batches, live content and models, under `/gemini`.

Odd about it: files are uploaded in pieces to an address of their own, without a key; a batch is an operation; answers
and errors lie in one file; a batch that expires has none. Batches with inline requests are not spoken here.
"""

from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._google.lines import Envelope, GoogleLines
from pipeline.simulator.wires._google.speaking import rpc
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.gemini.batches import Batches
from pipeline.simulator.wires.gemini.files import FileRoutes

WIRE = "gemini"


def _read(row: JsonObject) -> tuple[str, JsonObject]:
    key, request = row.get("key"), row.get("request")
    if not isinstance(key, str) or not isinstance(request, dict) or set(row) - {"key", "request"}:
        raise ValueError("expected an object of key and request")
    return key, request


def _wrap(row: JsonObject, result: JsonObject | Problem) -> JsonObject:
    said = {"error": rpc(result)} if isinstance(result, Problem) else {"response": result}
    return {"key": row["key"], **said}


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    envelope = Envelope(read=_read, wrap=_wrap, most_requests=200_000, most_bytes=2 * 10**9)
    engine.register(WIRE, GoogleLines(engine, envelope, all_or_nothing=True))
    return [*FileRoutes(engine, WIRE).routes("/gemini"), *Batches(engine, WIRE).routes("/gemini")]
