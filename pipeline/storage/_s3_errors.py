"""What an S3 server's or client's exception means: one sentence with its remedy each."""

import msgspec

from pipeline.storage._patience import Trouble

_REGION = frozenset({
    "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
    "301", "307",
})  # fmt: skip
_KEYS = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired"}
)
_BUSY = frozenset({"SlowDown", "RequestLimitExceeded", "Throttling", "ThrottlingException", "OperationAborted"})
_UNREACHABLE = frozenset({"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"})
_UNSURE = frozenset({
    "HTTPClientError", "IncompleteReadError", "ResponseParserError", "ResponseStreamingError",
    "ClientError", "TimeoutError", "ConnectionError", "FSTimeoutError",
})  # fmt: skip
_NEVER_MISSING = frozenset({"PutObject", "CreateMultipartUpload", "UploadPart", "ListObjectsV2"})
_UNSIGNED = frozenset(
    {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError"}
)
_SETTINGS = frozenset(
    {"ProfileNotFound", "ConfigParseError", "NoRegionError", "InvalidRegionError", "UnknownEndpointError"}
)


def explain(error: Exception) -> Trouble:
    """Return what the exception means for the call that met it."""
    answered = _answer(error)
    if answered is not None:
        return _explain_answer(answered)
    kinds = {kind.__name__ for kind in type(error).__mro__}  # botocore's, aiohttp's and s3fs's have no common root
    if kinds & _UNREACHABLE:
        return Trouble(
            kind="unreachable", reason="no server answers; check the network, AWS_ENDPOINT_URL and the region"
        )
    if kinds & _UNSIGNED:
        return Trouble(kind="misconfigured", reason="there are no credentials; set AWS_PROFILE or the AWS_… keys")
    if kinds & _SETTINGS:
        return Trouble(
            kind="misconfigured",
            reason=f"{type(error).__name__}; correct AWS_PROFILE, AWS_DEFAULT_REGION or their file",
        )
    if "InvalidEndpoint" in str(error) or (isinstance(error, ValueError) and "endpoint" in str(error).lower()):
        return Trouble(
            kind="misconfigured", reason="AWS_ENDPOINT_URL is not an address; use one like https://HOST:PORT"
        )
    if "FlexibleChecksumError" in kinds:
        return Trouble(kind="unknown", reason="what was read does not match its checksum")
    if kinds & _UNSURE:
        return Trouble(kind="unknown", reason=f"the answer was lost ({type(error).__name__})")
    return Trouble(kind="refused", reason=f"the client failed with {type(error).__name__}; check AWS_… and the store")


def status_of(error: Exception) -> int | None:
    """Return the HTTP status the server answered with, or None."""
    answered = _answer(error)
    return answered.status if answered else None


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    status: int
    code: str
    operation: str


def _answer(error: Exception) -> _Answer | None:
    """Return the server's answer; s3fs keeps it in the cause of what it raises."""
    for each in (error, error.__cause__):
        response = getattr(each, "response", None)
        if isinstance(response, dict):
            code = str(response.get("Error", {}).get("Code", ""))
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            known = status if isinstance(status, int) else int(code) if code.isdigit() else 500
            return _Answer(status=known, code=code, operation=getattr(each, "operation_name", ""))
    return None


def _explain_answer(answer: _Answer) -> Trouble:
    status, code = answer.status, answer.code
    if status == 412 or code == "PreconditionFailed":
        return Trouble(kind="taken", reason="it exists already")
    if code == "NoSuchBucket":
        return Trouble(
            kind="misconfigured", reason="there is no such bucket; make it, or check its name and AWS_ENDPOINT_URL"
        )
    if code == "NoSuchUpload":
        return Trouble(kind="gone", reason="its upload was given up meanwhile; run the command again")
    if status == 404 and answer.operation in _NEVER_MISSING:
        return Trouble(
            kind="misconfigured", reason="what answers there is not an S3 server (404); check AWS_ENDPOINT_URL"
        )
    if status == 404:
        return Trouble(kind="missing", reason="there is no such object")
    if code == "RequestTimeTooSkewed":
        return Trouble(
            kind="refused", reason="this machine's clock is wrong (RequestTimeTooSkewed); set it and run again"
        )
    if code in _REGION or status in {301, 307}:
        return Trouble(
            kind="misconfigured", reason="the bucket is in another region; set AWS_DEFAULT_REGION to the bucket's own"
        )
    if code in _KEYS or status == 401:
        return Trouble(
            kind="refused", reason=f"the credentials are wrong or expired ({code or status}); renew the AWS_… keys"
        )
    if status == 403:
        return Trouble(
            kind="refused", reason=f"not permitted ({code}); the role needs s3:GetObject, PutObject and ListBucket"
        )
    if status in {409, 429} or code in _BUSY:
        return Trouble(kind="busy", reason=f"the store is busy ({code or status})")
    if status >= 500 or code == "RequestTimeout":
        return Trouble(kind="unknown", reason=f"the store answered {status} {code}".rstrip())
    return Trouble(kind="refused", reason=f"the store answered {status} {code}; check that AWS_ENDPOINT_URL speaks S3")
