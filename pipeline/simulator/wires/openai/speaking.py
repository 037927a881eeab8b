"""How OpenAI takes keys and words what goes wrong, and what its routes read of a call."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pipeline.simulator.documents import JsonObject, JsonValue
from pipeline.simulator.engine import Engine
from pipeline.simulator.wires._speaking import Problem, RefusedError, Speaker, json_answer

T = TypeVar("T")


def error_body(problem: Problem) -> JsonObject:
    """Return the body OpenAI puts around a refusal."""
    return {"error": {"message": problem.message, "type": problem.kind, "param": problem.param, "code": problem.code}}


def missing(param: str) -> Problem:
    """Return the refusal of a body that lacks a field."""
    message = f"Missing required parameter: '{param}'."
    return Problem(message=message, param=param, code="missing_required_parameter")


def invalid(param: str, message: str, code: str = "invalid_value") -> Problem:
    """Return the refusal of a field's value."""
    return Problem(message=message, param=param, code=code)


def unknown(param: str) -> Problem:
    """Return the refusal of a field nobody knows."""
    return Problem(message=f"Unknown parameter: '{param}'.", param=param, code="unknown_parameter")


_STRUCK = {
    401: Problem(message="Incorrect API key provided.", status=401, code="invalid_api_key"),
    403: Problem(
        message="Insufficient quota for this project.", status=403, kind="insufficient_quota", code="insufficient_quota"
    ),
    404: Problem(message="There is nothing here (yet).", status=404),
    413: Problem(message="The body is too large.", status=413, code="request_too_large"),
    429: Problem(message="Rate limit reached for requests.", status=429, kind="requests", code="rate_limit_exceeded"),
}
_QUOTA = Problem(
    message="You exceeded your current quota, check your plan and billing details.",
    status=429,
    kind="insufficient_quota",
    code="insufficient_quota",
)


def struck(status: int, *, quota: bool = False) -> Problem:
    """Return what OpenAI says when a fault makes it answer with this status."""
    if quota:
        return _QUOTA
    if status >= 500:
        message = "The server had an error while processing your request."
        return Problem(message=message, status=status, kind="server_error")
    return _STRUCK.get(status, Problem(message=f"The call failed with status {status}.", status=status))


def bearer_key(request: Request) -> str:
    """Return the key of an Authorization header, empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


class OpenAIManner:
    """OpenAI's way of taking keys and refusing; others find the key elsewhere, or word refusals differently."""

    def __init__(self, *, key_of: Callable[[Request], str], worded: Callable[[Problem], JsonObject]) -> None:
        self._key_of = key_of
        self._worded = worded

    def key(self, request: Request) -> str:
        """Return the key of a call, empty if it has none."""
        return self._key_of(request)

    def key_problem(self, request: Request, accepted: tuple[str, ...]) -> Problem | None:
        """Return what is wrong with the key, if anything is."""
        key = self.key(request)
        if not key:
            message = "You didn't provide an API key: send it in an Authorization header (Authorization: Bearer KEY)."
            return Problem(message=message, status=401)
        if accepted and key not in accepted:
            return Problem(message="Incorrect API key provided.", status=401, code="invalid_api_key")
        return None

    def struck(self, status: int, *, quota: bool) -> Problem:
        """Return what OpenAI says when a fault makes it answer with this status."""
        return struck(status, quota=quota)

    def refusal(self, problem: Problem, *, mark: str) -> Response:
        """Return the answer that says so."""
        return _answer(self._worded(problem), status=problem.status, mark=mark)


class OpenAISpeaker(Speaker):
    """Speaks in OpenAI's manner, or in one that differs by key or wording; every answer has a request id."""

    def __init__(
        self,
        engine: Engine,
        wire: str,
        *,
        key_of: Callable[[Request], str] = bearer_key,
        worded: Callable[[Problem], JsonObject] = error_body,
    ) -> None:
        super().__init__(engine, wire, OpenAIManner(key_of=key_of, worded=worded))

    def json(self, value: JsonValue, status: int = 200) -> Response:
        """Return a JSON answer with a request id."""
        return _answer(value, status=status, mark=self.engine.clock.nonce())


def _answer(value: JsonValue, *, status: int, mark: str) -> Response:
    return json_answer(value, status=status, headers={"x-request-id": f"req_{mark}"})


def decoded(body: bytes) -> JsonObject:
    """Return the JSON object of a body, or refuse it."""
    try:
        return msgspec.json.decode(body, type=JsonObject)
    except msgspec.MsgspecError as error:
        message = "We could not parse the JSON body of your request: it must be one JSON object."
        raise RefusedError(Problem(message=message)) from error


def as_asked(body: bytes, kind: type[T]) -> T:
    """Return what the ledger notes of a create call, also of one that is refused: as much of it as can be read."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError:
        return kind()


def whole_number(request: Request, name: str, *, default: int, most: int) -> int:
    """Return a number of the query between 1 and `most`, or refuse the call."""
    given = request.query_params.get(name, str(default))
    if not given.isdecimal() or not 1 <= int(given) <= most:
        message = f"Invalid '{name}': expected a whole number between 1 and {most}, but got '{given}'."
        raise RefusedError(invalid(name, message))
    return int(given)


def page_of(ids: list[str], request: Request, limit: int) -> slice:
    """Return which rows the query's cursor asks for, or refuse a cursor that is none of the ids."""
    after = request.query_params.get("after")
    if after is not None and after not in ids:
        raise RefusedError(
            Problem(message=f"Nothing found with id '{after}' to go on from.", status=404, param="after")
        )
    begin = 0 if after is None else ids.index(after) + 1
    return slice(begin, begin + limit)


def listing(rows: list[JsonObject], *, more: bool) -> JsonObject:
    """Return one page of a listing."""
    return {
        "object": "list",
        "data": rows,
        "first_id": rows[0]["id"] if rows else None,
        "last_id": rows[-1]["id"] if rows else None,
        "has_more": more,
    }
