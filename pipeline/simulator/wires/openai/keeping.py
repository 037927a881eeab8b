"""What every provider of OpenAI's kind does about a batch that is there: look it up, show it, cancel it."""

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.jobs import Job
from pipeline.simulator.wires._speaking import Problem, RefusedError
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker


class Keeper:
    """The batches of one wire.

    `rendered` is a batch as the wire has it, `unknown` what is said of an id that is none, `ended` of one that cannot
    be cancelled any more.
    """

    def __init__(
        self,
        speaker: OpenAISpeaker,
        *,
        rendered: Callable[[Job], JsonObject],
        unknown: Callable[[str], Problem],
        ended: Callable[[Job], Problem],
    ) -> None:
        self._speaker = speaker
        self._engine = speaker.engine
        self._rendered = rendered
        self._unknown = unknown
        self._ended = ended

    def found(self, request: Request) -> Job:
        """Return the batch that the call names, or refuse it."""
        batch_id = request.path_params["batch_id"]
        job = self._engine.job(batch_id, wire=self._speaker.wire)
        if job is None:
            raise RefusedError(self._unknown(batch_id))
        return job

    def shown(self, job: Job) -> JsonObject:
        """Return the batch as the wire has it, while nothing moves it."""
        with self._engine.lock:
            return self._rendered(job)

    async def all_shown(self, jobs: list[Job]) -> list[JsonObject]:
        """Return these batches as they are now."""
        await run_in_threadpool(self._engine.poll, jobs)
        return [self.shown(job) for job in jobs]

    async def retrieve(self, request: Request) -> Response:
        """Answer with the batch as it is now."""
        job = self.found(request)
        await run_in_threadpool(self._engine.poll, [job])
        return self._speaker.json(self.shown(job))

    async def cancel(self, request: Request) -> Response:
        """Stop the batch and answer with it, or refuse to."""
        job = self.found(request)
        if not await run_in_threadpool(self._engine.cancel, job):
            raise RefusedError(self._ended(job))
        return self._speaker.json(self.shown(job))
