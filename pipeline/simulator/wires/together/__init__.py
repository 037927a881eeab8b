"""Together's wire: signed uploads, batches and chat completions under `/together/v1`.

Odd about it: an upload is announced, put to a signed address without the key, and then read; identical bytes are kept
once; create wraps the job, the listing is a bare array; statuses are upper case, a failure is one text; there are no
counts and no metadata; refusals of batch routes are bare texts.
"""

from starlette.routing import BaseRoute

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._compatible.lines import CompatibleLines, Why
from pipeline.simulator.wires._compatible.live import CompatibleLive
from pipeline.simulator.wires._compatible.performing import Dialect
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.files import FileRoutes
from pipeline.simulator.wires.openai.speaking import OpenAISpeaker
from pipeline.simulator.wires.together.batches import WIRE, Jobs
from pipeline.simulator.wires.together.uploads import Uploads, rendered_file

_PREFIX = "/together/v1"
_DIALECT = Dialect(
    wire=WIRE,
    models=("openai/gpt-oss-120b", "Qwen/Qwen3-235B-A22B-fp8-tput"),
    extras=frozenset(("reasoning", "top_k", "min_p", "repetition_penalty", "context_length_exceeded_behavior")),
)


class _Rows:
    """Rows without an id of their own; an error stands alone."""

    def answered(self, custom_id: str, body: JsonObject, *, mark: str) -> JsonObject:  # noqa: ARG002 - as `Rows` has it
        """Return the row of an answer."""
        return {"custom_id": custom_id, "response": {"status_code": 200, "body": {**body, "prompt": []}}}

    def failed(self, custom_id: str, problem: Problem, *, mark: str) -> JsonObject:  # noqa: ARG002 - as `Rows` has it
        """Return the row of a request that failed."""
        code = problem.code or (problem.kind if problem.status == 400 else str(problem.status))
        return {"custom_id": custom_id, "error": {"message": problem.message, "code": code}}

    def unanswered(self, custom_id: str, why: Why, *, mark: str) -> JsonObject | None:  # noqa: ARG002 - as `Rows` has it
        """Return nothing: requests a batch did not get to have no line."""
        return None


def routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of this wire."""
    speaker = OpenAISpeaker(engine, WIRE)
    engine.register(WIRE, CompatibleLines(engine, _DIALECT, _Rows(), addressed=False))
    return [
        *Uploads(speaker).routes(_PREFIX),
        *FileRoutes(speaker, rendered=rendered_file).routes(_PREFIX),
        *Jobs(OpenAISpeaker(engine, WIRE, worded=_worded)).routes(_PREFIX),
        *CompatibleLive(_DIALECT, speaker, enveloped=False).routes(_PREFIX),
    ]


def _worded(problem: Problem) -> JsonObject:
    return {"error": problem.message}
