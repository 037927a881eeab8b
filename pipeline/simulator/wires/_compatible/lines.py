"""The lines of such providers' batch files: the check of a whole input file, and what becomes of each request."""

from pathlib import Path
from typing import Literal, Protocol

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.engine import Engine
from pipeline.simulator.jobs import Job, LineProblem
from pipeline.simulator.running import Checked, Executed, Habits
from pipeline.simulator.wires._compatible.performing import Dialect, perform
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.lines import check_lines, line_problem
from pipeline.simulator.wires.openai.speaking import error_body

Why = Literal["expired", "cancelled"]
_LONGEST_ID = 64


class Rows(Protocol):
    """How result lines look."""

    def answered(self, custom_id: str, body: JsonObject, *, mark: str) -> JsonObject:
        """Return the row of an answer."""
        ...

    def failed(self, custom_id: str, problem: Problem, *, mark: str) -> JsonObject:
        """Return the row of a request that failed."""
        ...

    def unanswered(self, custom_id: str, why: Why, *, mark: str) -> JsonObject | None:
        """Return the row of a request the batch did not get to; None where the provider writes none."""
        ...


class _Line(msgspec.Struct, frozen=True):
    custom_id: str
    body: JsonObject


_lines = msgspec.json.Decoder(_Line)
_encoder = msgspec.json.Encoder()


class CompatibleLines:
    """Reads and writes the lines of one dialect; `addressed` says whether each names its method and URL.

    The model is that of the create call, where it names one.
    """

    habits = Habits()

    def __init__(self, engine: Engine, dialect: Dialect, rows: Rows, *, addressed: bool) -> None:
        self._engine = engine
        self._dialect = dialect
        self._rows = rows
        self._addressed = addressed

    def check(self, job: Job, path: Path) -> Checked:
        """Return where the lines lie, or why the whole batch fails."""
        settings = self._engine.settings
        most = settings.max_bytes or self._dialect.most_bytes
        if path.stat().st_size > most:
            message = f"The input file has {path.stat().st_size} bytes; a batch may have {most}."
            return Checked(problems=(LineProblem(code="file_too_large", message=message),))
        endpoint = job.order.endpoint if self._addressed else None
        most_requests = settings.max_requests or self._dialect.most_requests
        return _Check(endpoint, most_requests, model=job.order.model).file(path)

    def execute(self, job: Job, line: bytes, *, mark: str, twist: str | None) -> Executed:
        """Return what becomes of the request."""
        asked = _lines.decode(line)
        model = job.order.model or asked.body["model"]
        done = perform(self._engine, self._dialect, {**asked.body, "model": model}, mark=mark, twist=twist)
        if isinstance(done, Problem):
            row = self._rows.failed(asked.custom_id, done, mark=mark)
            return Executed(custom_id=asked.custom_id, model=model, ok=False, line=_encoder.encode(row), reply=None)
        row = self._rows.answered(asked.custom_id, done.body, mark=mark)
        return Executed(custom_id=asked.custom_id, model=model, ok=True, line=_encoder.encode(row), reply=done.reply)

    def failed(self, line: bytes, *, mark: str, status: int) -> bytes:
        """Return the error line of a request that met this HTTP status."""
        return _encoder.encode(self._rows.failed(_lines.decode(line).custom_id, line_problem(status), mark=mark))

    def unanswered(self, line: bytes, *, mark: str, why: Why) -> bytes | None:
        """Return the error line of a request the batch did not get to."""
        row = self._rows.unanswered(_lines.decode(line).custom_id, why, mark=mark)
        return None if row is None else _encoder.encode(row)


class _Check:
    """The check of one input file; without an endpoint lines need no address, with a model they need none."""

    def __init__(self, endpoint: str | None, most: int, *, model: str | None) -> None:
        self._endpoint = endpoint
        self._most = most
        self._ids: set[str] = set()
        self._needs_model = model is None
        self._model = model

    def file(self, path: Path) -> Checked:
        """Return where the lines lie, or what is wrong with them."""
        checked = check_lines(path, self._line, most=self._most, too_many="too_many_requests_in_file")
        return checked if checked.problems else msgspec.structs.replace(checked, model=self._model)

    def _line(self, line: bytes) -> LineProblem | None:
        message = self._problem(line)
        return None if message is None else LineProblem(code="invalid_request", message=message)

    def _problem(self, line: bytes) -> str | None:
        try:
            row = msgspec.json.decode(line, type=JsonObject)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return "not a JSON object"
        custom_id, body = row.get("custom_id"), row.get("body")
        if not isinstance(custom_id, str) or not 0 < len(custom_id) <= _LONGEST_ID:
            return f"custom_id must be a text of 1 to {_LONGEST_ID} characters"
        if custom_id in self._ids:
            return f"custom_id '{custom_id}' was already used in this file"
        self._ids.add(custom_id)
        if self._endpoint is not None and (row.get("method"), row.get("url")) != ("POST", self._endpoint):
            return f"method and url must be POST and {self._endpoint}"
        return self._body_problem(body)

    def _body_problem(self, body: object) -> str | None:
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
            return "body must be an object with messages"
        problem = self._model_problem(body.get("model")) if self._needs_model else None
        return problem or ("stream cannot be used in a batch" if body.get("stream") else None)

    def _model_problem(self, named: object) -> str | None:
        if not isinstance(named, str):
            return "body.model is missing"
        self._model = self._model or named
        return None if named == self._model else f"model '{named}' differs from '{self._model}': one model a file"


class OpenAIRows:
    """Rows as OpenAI writes them; `request_id` is left out where a provider has none."""

    def __init__(self, *, with_request_id: bool = True) -> None:
        self._with_request_id = with_request_id

    def answered(self, custom_id: str, body: JsonObject, *, mark: str) -> JsonObject:
        """Return the row of an answer."""
        return self._row(custom_id, mark, self._response(200, body, mark))

    def failed(self, custom_id: str, problem: Problem, *, mark: str) -> JsonObject:
        """Return the row of a request that failed."""
        return self._row(custom_id, mark, self._response(problem.status, error_body(problem), mark))

    def unanswered(self, custom_id: str, why: Why, *, mark: str) -> JsonObject | None:
        """Return the row of a request the batch did not get to."""
        error = {"code": f"batch_{why}", "message": f"This request was not executed: the batch was {why}."}
        return {"id": f"batch_req_{mark}", "custom_id": custom_id, "response": None, "error": error}

    def _response(self, status: int, body: JsonObject, mark: str) -> JsonObject:
        return {"status_code": status, **({"request_id": f"req_{mark}"} if self._with_request_id else {}), "body": body}

    def _row(self, custom_id: str, mark: str, response: JsonObject) -> JsonObject:
        return {"id": f"batch_req_{mark}", "custom_id": custom_id, "response": response, "error": None}
