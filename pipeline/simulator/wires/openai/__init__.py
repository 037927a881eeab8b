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
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker

WIRE = "openai"


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE)
    engine.register(WIRE, OpenAILines(engine))
    return [
        *FileRoutes(speaker).routes("/v1"),
        *Batches(speaker).routes("/v1"),
        *Live(speaker).routes("/v1"),
    ]
