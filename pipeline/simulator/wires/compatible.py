"""A server that speaks OpenAI's chat completions, as vLLM and llama.cpp do, under `/compatible/v1`, without a key."""

from starlette.requests import Request
from starlette.routing import BaseRoute

from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._compatible.live import CompatibleLive
from pipeline.simulator.wires._compatible.performing import Dialect
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, bearer_key

WIRE = "compatible"
_DIALECT = Dialect(
    wire=WIRE,
    models=("Qwen/Qwen3-8B",),
    extras=frozenset(("chat_template_kwargs", "thinking_token_budget", "structured_outputs", "top_k", "min_p")),
)


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""

    def key(request: Request) -> str:
        return bearer_key(request) or next(iter(engine.settings.api_keys), "none")

    return [*CompatibleLive(_DIALECT, OpenAISpeaker(engine, WIRE, key_of=key)).routes("/compatible/v1")]
