"""OpenAI's wire: files, batches, chat completions, responses and models under `/v1`.

Odd about it: a batch is created from any file id and fails later if there is no such file; one bad line fails the whole
batch with its line number; output and error lines come in two files, either of which may be missing.
"""

from starlette.routing import BaseRoute

from pipeline.simulator.engine import Engine
from pipeline.simulator.wires.openai.batches import Batches
from pipeline.simulator.wires.openai.files import FileRoutes
from pipeline.simulator.wires.openai.lines import OpenAILines
from pipeline.simulator.wires.openai.live import Live

WIRE = "openai"


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    engine.register(WIRE, OpenAILines(engine))
    return [
        *FileRoutes(engine, WIRE).routes("/v1"),
        *Batches(engine, WIRE).routes("/v1"),
        *Live(engine, WIRE).routes("/v1"),
    ]
