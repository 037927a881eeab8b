"""How Google is asked, and how it words what goes wrong: a number, a word of google.rpc, a sentence, details."""

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.jobs import LineProblem
from pipeline.simulator.wires._speaking import Problem, RefusedError, json_answer

_WORDS = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED", 409: "ABORTED", 412: "FAILED_PRECONDITION", 413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNAVAILABLE", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
_NUMBERS = {
    "CANCELLED": 1, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5, "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10, "INTERNAL": 13, "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}  # fmt: skip
_RETRY_SECONDS = 2


def problem_of(status: int, message: str) -> Problem:
    """Return a refusal with the word that goes with its HTTP status."""
    return Problem(status=status, kind=_WORDS.get(status, "UNKNOWN"), message=message)


def invalid(message: str) -> Problem:
    """Return the refusal of what was asked for."""
    return problem_of(400, message)


def rpc(problem: Problem) -> JsonObject:
    """Return the refusal as it stands in lines and operations: with the number of google.rpc."""
    return {"code": _NUMBERS.get(problem.kind, 2), "message": problem.message}


def rpc_error(problem: LineProblem) -> JsonObject:
    """Return why a whole batch failed, with the number of google.rpc."""
    numbers = {"token_limit_exceeded": 8, "server_error": 13}
    code = 5 if problem.param == "file_id" else numbers.get(problem.code, 3)
    return {"code": code, "message": problem.message}


def decoded(body: bytes) -> JsonObject:
    """Return the JSON object of a body, or refuse it."""
    try:
        return msgspec.json.decode(body or b"{}", type=JsonObject)
    except msgspec.MsgspecError as error:
        raise RefusedError(invalid("Invalid JSON payload received.")) from error


def number_of(request: Request, name: str, *, default: int) -> int:
    """Return the whole number that a query gives; Google takes anything else for none."""
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() else default


def time_of(seconds: float) -> str:
    """Return a time as Google writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class GoogleManner:
    """Google's way of taking keys and refusing; without `needs_key` a call may come without one."""

    def __init__(self, *, needs_key: bool) -> None:
        self._needs_key = needs_key

    def key(self, request: Request) -> str:
        """Return the key or token of a call, empty if it has none."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = request.headers.get("x-goog-api-key", "") or request.query_params.get("key", "")
        return key or (token.strip() if scheme.lower() == "bearer" else "")

    def key_problem(self, request: Request, accepted: tuple[str, ...]) -> Problem | None:
        """Return what is wrong with the key, if anything is."""
        key = self.key(request)
        if not key and self._needs_key:
            return problem_of(403, "Method doesn't allow unregistered callers.")
        if self._needs_key and accepted and key not in accepted:
            return Problem(status=400, kind="API_KEY_INVALID", message="API key not valid.")
        return None

    def struck(self, status: int, *, quota: bool) -> Problem:
        """Return what Google says when a fault makes it answer with this status."""
        if quota:
            return problem_of(403, "Billing is disabled for this project.")
        return problem_of(status, f"The call failed with status {status}.")

    def refusal(self, problem: Problem, *, mark: str) -> Response:  # noqa: ARG002 - Google names no request
        """Return the answer that says so."""
        error: JsonObject = {"code": problem.status, "message": problem.message, "status": problem.kind}
        if problem.kind == "API_KEY_INVALID":
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": problem.kind}
            error |= {"status": "INVALID_ARGUMENT", "details": [info]}
        if problem.status == 429:
            info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{_RETRY_SECONDS}s"}
            error["details"] = [info]
        return json_answer({"error": error}, status=problem.status)
