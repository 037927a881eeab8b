"""The lines of OpenAI's batch files: the check of a whole input file, and what becomes of each request."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, LineProblem
from pipeline.simulator.running import Checked, Executed, Habits
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.performing import CHAT, RESPONSES, perform
from pipeline.simulator.wires.openai.speaking import error_body, struck

_MOST_REQUESTS = 50_000
_MOST_BYTES = 200_000_000
_MOST_PROBLEMS = 100
_UNANSWERED = {
    "expired": ("batch_expired", "This request could not be executed before the completion window expired."),
    "cancelled": ("batch_cancelled", "This request was cancelled before it was executed."),
}
_NEEDED = {CHAT: "messages", RESPONSES: "input"}
_LINE_400 = Problem(message="Invalid request: the simulator was told to refuse it.", code="invalid_value")


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    url: str
    body: JsonObject


_lines = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


class OpenAILines:
    """Reads and writes OpenAI's lines."""

    habits = Habits()

    def __init__(self, engine: Engine, *, most_requests: int = _MOST_REQUESTS) -> None:
        self._engine = engine
        self._most_requests = most_requests

    def check(self, job: Job, path: Path) -> Checked:
        """Return where the lines lie, or why the whole batch fails."""
        most = self._engine.settings.max_bytes or _MOST_BYTES
        size = path.stat().st_size
        if size > most:
            message = f"The input file has {size} bytes; a batch may have {most}."
            return Checked(problems=(LineProblem(code="file_too_large", message=message, param="input_file_id"),))
        return _Check(job.order.endpoint, self._engine.settings.max_requests or self._most_requests).file(path)

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:  # noqa: ARG002 - as `Lines` has it
        """Return what becomes of the request."""
        asked = _lines.decode(line)
        done = perform(self._engine, asked.url, asked.body, mark=mark, twist=twist)
        model = asked.body["model"]
        if isinstance(done, Problem):
            written = _written(asked.custom_id, mark, done.status, error_body(done))
            return Executed(custom_id=asked.custom_id, model=model, ok=False, line=written, reply=None)
        written = _written(asked.custom_id, mark, 200, done.body)
        reply = done.reply if done.is_billed else None
        return Executed(custom_id=asked.custom_id, model=model, ok=True, line=written, reply=reply)

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:
        """Return the error line of a request that met this HTTP status."""
        return _written(_lines.decode(line).custom_id, mark, status, error_body(line_problem(status)))

    def unanswered(self, line: bytes, *, mark: str, why: Literal["expired", "cancelled"]) -> bytes:
        """Return the error line of a request the batch did not get to."""
        code, message = _UNANSWERED[why]
        error = {"code": code, "message": message}
        custom_id = _lines.decode(line).custom_id
        return _encoder.encode({"id": f"batch_req_{mark}", "custom_id": custom_id, "response": None, "error": error})


def line_problem(status: int) -> Problem:
    """Return what the error line of a request says that met this HTTP status."""
    return _LINE_400 if status == 400 else struck(status)


def _written(custom_id: str, mark: str, status: int, body: JsonObject) -> bytes:
    response = {"status_code": status, "request_id": _uuid(mark), "body": body}
    row = {"id": f"batch_req_{mark}", "custom_id": custom_id, "response": response, "error": None}
    return _encoder.encode(row)


def _uuid(mark: str) -> str:
    name = f"{mark:0<32}"[:32]
    return f"{name[:8]}-{name[8:12]}-4{name[12:15]}-8{name[15:18]}-{name[18:30]}"


def check_lines(path: Path, problem_of: Callable[[bytes], LineProblem | None], *, most: int, too_many: str) -> Checked:
    """Return where the lines of an input file lie, or what is wrong with them; `too_many` is the word for that."""
    offsets: list[int] = []
    problems: list[LineProblem] = []
    at = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            offsets.append(at)
            at += len(line)
            problem = problem_of(line)
            if problem is not None and len(problems) < _MOST_PROBLEMS:
                problems.append(msgspec.structs.replace(problem, line=number))
    if not offsets:
        problems.append(LineProblem(code="empty_file", message="The input file is empty."))
    if len(offsets) > most:
        message = f"The input file has {len(offsets)} requests; a batch may have {most}."
        problems.append(LineProblem(code=too_many, message=message))
    return Checked(problems=tuple(problems)) if problems else Checked(offsets=offsets)


class _Check:
    """The check of one input file."""

    def __init__(self, endpoint: str, most: int) -> None:
        self._endpoint = endpoint
        self._most = most
        self._ids: set[str] = set()
        self._model: str | None = None

    def file(self, path: Path) -> Checked:
        """Return where the lines lie, or what is wrong with them."""
        checked = check_lines(path, self._line, most=self._most, too_many="too_many_tasks")
        return checked if checked.problems else msgspec.structs.replace(checked, model=self._model)

    def _line(self, line: bytes) -> LineProblem | None:
        try:
            row = msgspec.json.decode(line, type=JsonObject)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return LineProblem(code="invalid_json_line", message="This line is not parseable as valid JSON.")
        return self._row_problem(row) or self._body_problem(row["body"])

    def _row_problem(self, row: JsonObject) -> LineProblem | None:
        for name, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
            if not isinstance(row.get(name), kind):
                return _missing(name)
        if row["method"] != "POST":
            return LineProblem(code="invalid_method", message="The only method is 'POST'.", param="method")
        if row["url"] != self._endpoint:
            message = f"The URL '{row['url']}' does not match the batch's endpoint '{self._endpoint}'."
            return LineProblem(code="mismatched_url", message=message, param="url")
        if row["custom_id"] in self._ids:
            message = f"The custom_id '{row['custom_id']}' was already used in this file."
            return LineProblem(code="duplicate_custom_id", message=message, param="custom_id")
        self._ids.add(row["custom_id"])
        return None

    def _body_problem(self, body: JsonObject) -> LineProblem | None:
        if not isinstance(body.get("model"), str):
            return _missing("body.model")
        self._model = self._model or body["model"]
        if body["model"] != self._model:
            message = f"The model '{body['model']}' differs from '{self._model}': one model a file."
            return LineProblem(code="model_mismatch", message=message, param="body.model")
        if body.get("stream"):
            message = "Streaming is not supported in batches."
            return LineProblem(code="invalid_request", message=message, param="body.stream")
        needed = _NEEDED.get(self._endpoint)
        return _missing(f"body.{needed}") if needed and needed not in body else None


def _missing(param: str) -> LineProblem:
    message = f"Missing required parameter: '{param.removeprefix('body.')}'."
    return LineProblem(code="missing_required_parameter", message=message, param=param)
