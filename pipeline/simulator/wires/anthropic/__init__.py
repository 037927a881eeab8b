"""Anthropic's wire: Message Batches and Messages, under `/anthropic/v1`.

Odd about it: a create call brings the requests itself and checks only their ids; everything else about them is found
out when they are executed. One result file holds answers and errors; every batch ends as `ended`.
"""

from starlette.routing import BaseRoute

from pipeline.simulator.engine import Engine
from pipeline.simulator.wires.anthropic.batches import Batches
from pipeline.simulator.wires.anthropic.lines import AnthropicLines

WIRE = "anthropic"


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    engine.register(WIRE, AnthropicLines(engine))
    return [*Batches(engine, WIRE).routes("/anthropic")]
