"""Amazon's client library at arm's length: how it is loaded and configured, and what its errors mean to us.

boto3 is an optional extra. It is loaded only when a client is built, and nothing of it leaves this module untranslated.
"""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from pipeline.errors import (
    AccountError,
    ConfigError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
    UnreachableError,
)
from pipeline.providers._http import fingerprint
from pipeline.settings import Secret, Settings

_WAITS = frozenset({"ThrottlingException", "TooManyRequestsException", "Throttling", "SlowDown"})
_TIMED_OUT = "RequestTimeout"  # S3 says so with the status of a refusal; what a create did by then is not known
_ACCOUNT = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId",
        "InvalidSignatureException", "SignatureDoesNotMatch", "UnrecognizedClientException",
    }
)  # fmt: skip
_QUOTA = "ServiceQuotaExceededException"


class Client(Protocol):
    """A client of one service; its calls are made from Amazon's own descriptions when the program runs."""

    def __getattr__(self, call: str) -> Any:  # the library has no types
        """Return the call of this name."""
        ...


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """What the provider talks to, and a fingerprint of the key and the region that it does that with."""

    bedrock: Client
    s3: Client
    account: str
    tokens: Callable[[], list[str]]

    @contextlib.contextmanager
    def translated(self, what: str, *, creates: bool = False) -> Iterator[None]:
        """Turn the library's errors into ours; one that `creates` may have happened where others did not.

        Amazon repeats the headers that were signed to whom it refuses: no error says the token that is among them.
        """
        errors, parsers = importlib.import_module("botocore.exceptions"), importlib.import_module("botocore.parsers")
        try:
            tokens = self.tokens()
            yield
        except errors.ClientError as error:
            cause = error if _without(tokens, str(error)) == str(error) else None
            raise _refusal(what, error.response, creates=creates, tokens=tokens) from cause
        except (errors.EndpointConnectionError, errors.ConnectTimeoutError) as error:
            raise UnreachableError(f"{what} did not reach AWS: {error}") from error
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.CredentialRetrievalError) as error:
            raise AccountError(f"{what} had no credentials: {error}", code="no_credentials") from error
        except (errors.BotoCoreError, parsers.ResponseParserError) as error:
            unknown = OutcomeUnknownError if creates else UnavailableError
            raise unknown(f"{what} broke off: {type(error).__name__}") from error


def clients(settings: Settings) -> Clients:
    """Return the clients for the account of the environment, or raise ConfigError."""
    try:
        boto3, config = importlib.import_module("boto3"), importlib.import_module("botocore.config")
    except ImportError as error:
        raise ConfigError("bedrock needs boto3, which is not installed; pip install boto3") from error
    errors = importlib.import_module("botocore.exceptions")
    try:
        session = boto3.session.Session(
            aws_access_key_id=settings.value("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=settings.value("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=settings.value("AWS_SESSION_TOKEN"),
            region_name=settings.value("AWS_REGION") or settings.value("AWS_DEFAULT_REGION"),
            profile_name=settings.value("AWS_PROFILE"),
        )
        key = session.get_credentials()
        options = config.Config(
            connect_timeout=10,
            read_timeout=60,
            retries={"total_max_attempts": 1},
            request_checksum_calculation="when_required",
        )
        bedrock, s3 = (
            session.client(name, config=options, endpoint_url=_endpoint(settings, name)) for name in ("bedrock", "s3")
        )
    except errors.BotoCoreError as error:
        raise ConfigError(f"the AWS settings cannot be used: {error}") from error
    if key is None:
        raise ConfigError("no AWS credentials were found; set AWS_ACCESS_KEY_ID and its secret, or AWS_PROFILE")
    seen_by = Secret(f"{key.access_key} {bedrock.meta.region_name}")  # another region lists none of these jobs
    bearer = settings.value("AWS_BEARER_TOKEN_BEDROCK")

    def tokens() -> list[str]:
        return [token for token in (key.get_frozen_credentials().token, bearer) if token]

    return Clients(bedrock=bedrock, s3=s3, account=fingerprint(seen_by), tokens=tokens)


def _endpoint(settings: Settings, service: str) -> str | None:
    """Return the address a service is to be reached at, None for Amazon's own."""
    name = settings.is_set(f"AWS_ENDPOINT_URL_{service.upper()}", "AWS_ENDPOINT_URL")
    return settings.address(name, "") if name else None


def _without(tokens: list[str], text: str) -> str:
    """Return the text without the tokens, in whatever case."""
    for token in tokens:
        text = re.sub(re.escape(token), "***", text, flags=re.IGNORECASE)
    return text


def _refusal(
    what: str,
    response: dict[str, Any],  # as the library hands it over
    *,
    creates: bool,
    tokens: list[str],
) -> ProviderError:
    detail, meta = response.get("Error", {}), response.get("ResponseMetadata", {})
    code, status = str(detail.get("Code", "unknown")), int(meta.get("HTTPStatusCode", 0))
    said = _without(tokens, str(detail.get("Message", "no reason given")))
    message = f"{what} answered {status} {code}: {said[:500]}"
    if code == _TIMED_OUT and creates:
        return OutcomeUnknownError(message)
    if code in _WAITS or code == _TIMED_OUT or status == 429:
        return UnavailableError(message)
    if code == _QUOTA:
        return AccountError(message, code=code, mendable_by_waiting=True)
    if code in _ACCOUNT or status in {401, 403}:
        return AccountError(message, code=code)
    if 400 <= status < 500 and status not in {408, 409}:
        return RejectedError(message, status=status, code=code)
    return OutcomeUnknownError(message) if creates else UnavailableError(message)
