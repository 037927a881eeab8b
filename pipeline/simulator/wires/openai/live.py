"""OpenAI's live routes: chat completions, responses, and the list of models."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.models import MODELS
from pipeline.simulator.wires.openai.performing import CHAT, RESPONSES, perform
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, decoded

_MODELS_SINCE = 1_790_000_000


class Live:
    """The routes that answer at once."""

    def __init__(self, speaker: OpenAISpeaker) -> None:
        self._speaker = speaker
        self._engine = speaker.engine

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        return [
            route(f"{prefix}/chat/completions", "live", self._chat, method="POST"),
            route(f"{prefix}/responses", "live", self._responses, method="POST"),
            route(f"{prefix}/models", "poll", self._models),
            route(f"{prefix}/models/{{model:path}}", "poll", self._model),
        ]

    async def _chat(self, request: Request) -> Response:
        return await run_in_threadpool(self._perform, CHAT, await request.body())

    async def _responses(self, request: Request) -> Response:
        return await run_in_threadpool(self._perform, RESPONSES, await request.body())

    def _perform(self, url: str, content: bytes) -> Response:
        body = decoded(content)
        if body.get("stream"):
            raise RefusedError(Problem(message="The simulator does not stream: leave 'stream' out.", param="stream"))
        done = perform(self._engine, url, body, mark=self._engine.clock.nonce(), twist=self._engine.twist())
        if isinstance(done, Problem):
            raise RefusedError(done)
        if done.is_billed:
            self._engine.bill_live(self._speaker.wire, done.ask, done.reply)
        return self._speaker.json(done.body)

    def _known(self) -> tuple[str, ...]:
        return self._engine.settings.models or MODELS

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        return self._speaker.json({"object": "list", "data": [rendered_model(model) for model in self._known()]})

    async def _model(self, request: Request) -> Response:
        model = request.path_params["model"]
        if model not in self._known():
            message = f"The model '{model}' does not exist or you do not have access to it."
            raise RefusedError(Problem(message=message, status=404, param="model", code="model_not_found"))
        return self._speaker.json(rendered_model(model))


def rendered_model(model: str) -> JsonObject:
    """Return the model as OpenAI shows it."""
    return {"id": model, "object": "model", "created": _MODELS_SINCE, "owned_by": "simulator"}
