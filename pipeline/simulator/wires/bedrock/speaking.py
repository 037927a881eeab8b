"""How Amazon takes keys and words refusals: as JSON for its newer services, as XML for S3."""

import re
from xml.sax.saxutils import escape

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pipeline.simulator.wires._speaking import Problem, RefusedError

_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/[^/,\s]*/([^/,\s]+)/")
_STRUCK = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    409: "ConflictException",
    413: "ValidationException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


def refused(status: int, kind: str, message: str) -> RefusedError:
    """Return the refusal of a call."""
    return RefusedError(Problem(status=status, kind=kind, message=message))


def region_of(request: Request) -> str:
    """Return the region that a call was signed for."""
    found = _CREDENTIAL.match(request.headers.get("authorization", ""))
    return found[2] if found else ""


class _Signed:
    """Keys that travel inside a signature."""

    def key(self, request: Request) -> str:
        """Return the public half of the key."""
        found = _CREDENTIAL.match(request.headers.get("authorization", ""))
        return found[1] if found else ""

    def key_problem(self, request: Request, accepted: tuple[str, ...]) -> Problem | None:
        """Return why a call is refused that is not signed, or by a stranger."""
        key = self.key(request)
        if not key:
            return Problem(status=403, kind="MissingAuthenticationTokenException", message="Missing Token")
        if accepted and key not in accepted:
            return Problem(status=403, kind="UnrecognizedClientException", message="The security token is invalid.")
        return None

    def struck(self, status: int, *, quota: bool) -> Problem:
        """Return what Amazon says when a fault makes it answer with this status."""
        if quota:
            return Problem(status=400, kind="ServiceQuotaExceededException", message="A quota is used up.")
        kind = _STRUCK.get(status, "InternalServerException" if status >= 500 else "ValidationException")
        return Problem(status=status, kind=kind, message="The simulator was told to refuse this.")


class Json(_Signed):
    """Refusals as JSON."""

    def refusal(self, problem: Problem, *, mark: str) -> Response:
        """Return the answer that says so."""
        headers = {"x-amzn-errortype": problem.kind, "x-amzn-requestid": mark}
        body = msgspec.json.encode({"message": problem.message})
        return Response(body, status_code=problem.status, headers=headers, media_type="application/json")


class Xml(_Signed):
    """Refusals as XML."""

    def refusal(self, problem: Problem, *, mark: str) -> Response:
        """Return the answer that says so."""
        inner = f"<Code>{problem.kind}</Code><Message>{escape(problem.message)}</Message><RequestId>{mark}</RequestId>"
        return xml(f"<Error>{inner}</Error>", status=problem.status)


def xml(document: str, *, status: int = 200) -> Response:
    """Return an XML answer."""
    return Response(
        f'<?xml version="1.0" encoding="UTF-8"?>\n{document}', status_code=status, media_type="application/xml"
    )
