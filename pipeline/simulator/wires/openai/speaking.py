"""How OpenAI words what goes wrong, and what every one of its routes does first: check the key, meet the faults."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pipeline.ids import digest
from pipeline.simulator.calls import Answered, Call, answer
from pipeline.simulator.documents import JsonObject, JsonValue
from pipeline.simulator.engine import Engine
from pipeline.simulator.ledger import CreateReceived

Handler = Callable[[Request], Awaitable[Response]]
Seen = Callable[[Request, Answered], None]
_INVALID = "invalid_request_error"

T = TypeVar("T")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call or a request is refused."""

    message: str
    status: int = 400
    kind: str = _INVALID
    param: str | None = None
    code: str | None = None

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the body OpenAI puts around it."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


class RefusedError(Exception):
    """Ends a handler with a refusal."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


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


class Speaker:
    """Makes routes of handlers; those of other providers find the key elsewhere, or word refusals differently."""

    def __init__(
        self,
        engine: Engine,
        *,
        key_of: Callable[[Request], str] = bearer_key,
        worded: Callable[[Problem], JsonObject] = Problem.body,
    ) -> None:
        self._engine = engine
        self._key_of = key_of
        self._worded = worded

    def route(self, path: str, call: str, handler: Handler, *, method: str = "GET", seen: Seen | None = None) -> Route:
        """Return a route that checks the key, meets the faults of `call`, and only then asks the handler."""

        async def endpoint(request: Request) -> Response:
            return await self._speak(request, call, handler, seen)

        return Route(path, endpoint, methods=[method], name=f"{method} {path}")

    def json(self, value: JsonValue, status: int = 200) -> Response:
        """Return a JSON answer with a request id."""
        headers = {"x-request-id": f"req_{self._engine.clock.nonce()}"}
        return Response(msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json")

    async def _speak(self, request: Request, call: str, handler: Handler, seen: Seen | None) -> Response:
        async def act() -> Response:
            try:
                return await handler(request)
            except RefusedError as error:
                return self._refusal(error.problem)

        def tell(answered: Answered) -> None:
            if seen is not None:
                seen(request, answered)

        def refuse(status: int, *, quota: bool) -> Response:
            return self._refusal(struck(status, quota=quota))

        if seen is not None:
            request.state.body = await request.body()
        problem = self._key_problem(request)
        if problem is not None:
            tell(Answered(status=problem.status, fault=None, applied=False))
            return self._refusal(problem)
        return await answer(self._engine, Call(name=call, request=request, act=act, refuse=refuse, seen=tell))

    def record_create(
        self,
        request: Request,
        answered: Answered,
        *,
        wire: str,
        input_file_id: str | None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Write down a call to create a batch, also one that is refused."""
        self._engine.ledger.record(
            CreateReceived(
                at=self._engine.now(),
                wire=wire,
                account=account_of(request),
                input_file_id=input_file_id,
                metadata=metadata,
                outcome="applied" if answered.applied else "refused",
                status=answered.status,
                batch_id=getattr(request.state, "batch_id", None) if answered.applied else None,
                fault=answered.fault,
            )
        )

    def _refusal(self, problem: Problem) -> Response:
        return self.json(self._worded(problem), problem.status)

    def _key_problem(self, request: Request) -> Problem | None:
        key = self._key_of(request)
        if not key:
            message = "You didn't provide an API key: send it in an Authorization header (Authorization: Bearer KEY)."
            return Problem(message=message, status=401)
        accepted = self._engine.settings.api_keys
        if accepted and key not in accepted:
            return Problem(message="Incorrect API key provided.", status=401, code="invalid_api_key")
        return None


def account_of(request: Request) -> str:
    """Return a name for the key that tells nothing about it."""
    return digest((bearer_key(request) or request.headers.get("api-key", "")).encode())[:12]


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
