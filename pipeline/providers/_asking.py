"""How judges are asked in OpenAI's words, or in words like them: settings that are refused, request bodies, lines."""

from collections.abc import Collection, Mapping, Sequence

from pipeline.domain import QUESTION, REQUEST_ID, Frame, Judge, Message
from pipeline.errors import ConfigError
from pipeline.providers._chat import chat_body, responses_body

CHAT = "/v1/chat/completions"
_PATHS = {"chat": CHAT, "responses": "/v1/responses"}


def compatible_body(
    judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message], limit: str = "max_tokens"
) -> dict[str, object]:
    """Return the body of a chat completion; `limit` is what the output limit is called."""
    body = chat_body(judge, messages=messages, schema=schema)
    if judge.max_output_tokens is not None:
        body[limit] = body.pop("max_completion_tokens")
    return body


def line_frame(body: Mapping[str, object], *, url: str | None = CHAT) -> Frame:
    """Return the frame of a request line; some providers know the address from the batch and want none."""
    addressed = {} if url is None else {"method": "POST", "url": url}
    return Frame.of({"custom_id": REQUEST_ID, **addressed, "body": body})


def check_endpoint(judge: Judge) -> None:
    """Raise ConfigError for an endpoint other than chat completions and responses, or settings that both refuse."""
    if judge.endpoint not in {None, *_PATHS}:
        raise ConfigError(f"endpoint {judge.endpoint!r} of {judge.model} is unknown; use chat or responses")
    if judge.temperature is not None and judge.reasoning not in {"none", "default"}:
        raise ConfigError(f"temperature is refused by {judge.model} with reasoning {judge.reasoning}; leave it out")


def endpoint_path(judge: Judge) -> str:
    """Return the path of the judge's endpoint."""
    return _PATHS[judge.endpoint or "chat"]


def endpoint_body(
    judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message]
) -> dict[str, object]:
    """Return the body of a request at the judge's endpoint."""
    build_body = responses_body if judge.endpoint == "responses" else chat_body
    return build_body(judge, messages=messages, schema=schema)


def endpoint_frame(
    judge: Judge, *, schema: Mapping[str, object] | None, messages: Sequence[Message] = QUESTION
) -> Frame:
    """Return the request line at the judge's endpoint, with gaps for id and messages."""
    return line_frame(endpoint_body(judge, schema=schema, messages=messages), url=endpoint_path(judge))


def check_effort(judge: Judge, known: Collection[str] | None) -> None:
    """Raise ConfigError for a reasoning level that the model is known to refuse; of some models none are known."""
    if known is not None and judge.reasoning not in {"default", *known}:
        raise ConfigError(f"reasoning {judge.reasoning!r} is refused by {judge.model}; it takes {', '.join(known)}")


def check_plain(judge: Judge) -> None:
    """Raise ConfigError for an endpoint other than chat completions: these providers have no other."""
    if judge.endpoint not in {None, "chat"}:
        raise ConfigError(f"endpoint {judge.endpoint!r} of {judge.model} is unknown to {judge.provider}; use chat")
