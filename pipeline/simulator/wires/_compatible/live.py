"""Chat completions that are answered at once, and the list of models."""

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.simulator.wires._compatible.performing import Dialect, perform
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.live import rendered_model
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker, decoded


class CompatibleLive:
    """The routes that answer at once; `enveloped` says whether the list of models comes in an object."""

    def __init__(self, dialect: Dialect, speaker: OpenAISpeaker, *, enveloped: bool = True) -> None:
        self._dialect = dialect
        self._speaker = speaker
        self._engine = speaker.engine
        self._enveloped = enveloped

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes."""
        route = self._speaker.route
        return [
            route(f"{prefix}/chat/completions", "live", self._chat, method="POST"),
            route(f"{prefix}/models", "poll", self._models),
        ]

    async def _chat(self, request: Request) -> Response:
        return await run_in_threadpool(self._perform, await request.body())

    def _perform(self, content: bytes) -> Response:
        body = decoded(content)
        if body.get("stream"):
            raise RefusedError(Problem(message="The simulator does not stream: leave 'stream' out.", param="stream"))
        engine = self._engine
        done = perform(engine, self._dialect, body, mark=engine.clock.nonce(), twist=engine.twist())
        if isinstance(done, Problem):
            raise RefusedError(done)
        engine.bill_live(self._dialect.wire, done.ask, done.reply)
        return self._speaker.json(done.body)

    async def _models(self, request: Request) -> Response:  # noqa: ARG002 - a route takes the request
        known = [
            rendered_model(model) | {"type": "chat"} for model in self._engine.settings.models or self._dialect.models
        ]
        return self._speaker.json({"object": "list", "data": known} if self._enveloped else known)
