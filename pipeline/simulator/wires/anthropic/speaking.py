"""How Anthropic words what goes wrong, and what it wants of every call: one key and a version it knows."""

from starlette.requests import Request
from starlette.responses import Response

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.wires._speaking import Problem, json_answer

NEW, OLD = "2026-10-21", "2023-06-01"
_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 408: "timeout_error", 409: "invalid_request_error", 413: "request_too_large",
    429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
_WORDS = {
    "authentication_error": "invalid x-api-key",
    "permission_error": "Your API key does not have permission to use the specified resource.",
    "rate_limit_error": "This request would exceed your organization's rate limit.",
    "request_too_large": "Request exceeds the maximum size.",
    "overloaded_error": "Overloaded",
}


def kind_of(status: int) -> str:
    """Return the kind of error that goes with an HTTP status."""
    return _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")


def invalid(message: str) -> Problem:
    """Return the refusal of what was asked for."""
    return Problem(status=400, kind="invalid_request_error", message=message)


def error_body(problem: Problem, *, request_id: str | None) -> JsonObject:
    """Return the body Anthropic puts around a refusal."""
    error = {"type": problem.kind, "message": problem.message}
    return {"type": "error", "error": error, "request_id": request_id}


class AnthropicManner:
    """Anthropic's way of taking keys and refusing."""

    def key(self, request: Request) -> str:
        """Return the key of a call, empty if it has none."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return request.headers.get("x-api-key", "") or (token.strip() if scheme.lower() == "bearer" else "")

    def key_problem(self, request: Request, accepted: tuple[str, ...]) -> Problem | None:
        """Return what is wrong with the key or the version of the call, if anything is."""
        key = self.key(request)
        if not key:
            return Problem(status=401, kind="authentication_error", message="x-api-key header is required")
        if "x-api-key" in request.headers and "authorization" in request.headers:
            message = "Send either x-api-key or authorization, not both."
            return Problem(status=401, kind="authentication_error", message=message)
        if accepted and key not in accepted:
            return self.struck(401, quota=False)
        version = request.headers.get("anthropic-version")
        if version is None:
            return invalid("anthropic-version: header is required")
        if version not in (NEW, OLD):
            return invalid(f'anthropic-version: "{version}" is not a valid version')
        return None

    def struck(self, status: int, *, quota: bool) -> Problem:
        """Return what Anthropic says when a fault makes it answer with this status."""
        if quota:
            message = "Your credit balance is too low to access the Anthropic API."
            return Problem(status=402, kind="billing_error", message=message)
        kind = kind_of(status)
        return Problem(status=status, kind=kind, message=_WORDS.get(kind, "Internal server error"))

    def refusal(self, problem: Problem, *, mark: str) -> Response:
        """Return the answer that says so."""
        request_id = f"req_{mark[:24]}"
        body = error_body(problem, request_id=request_id)
        return json_answer(body, status=problem.status, headers={"request-id": request_id})
