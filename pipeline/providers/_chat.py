"""The chat-completions and responses wires: request bodies and result lines, as OpenAI and its likes write them."""

from collections.abc import Mapping, Sequence

import msgspec

from pipeline.domain import Judge, Message, Output, Tokens
from pipeline.providers._faults import blames_provider, errored, wants_money
from pipeline.providers._lenient import LineDecoder


def said(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the messages as chat completions, and servers like them, take them."""
    return [{"role": message.role, "content": message.text} for message in messages]


def chat_body(judge: Judge, *, messages: Sequence[Message], schema: Mapping[str, object] | None) -> dict[str, object]:
    """Return the body of a chat completion."""
    body: dict[str, object] = {"model": judge.model, "messages": said(messages)}
    if judge.reasoning != "default":
        body["reasoning_effort"] = judge.reasoning
    if judge.temperature is not None:
        body["temperature"] = judge.temperature
    if judge.max_output_tokens is not None:
        body["max_completion_tokens"] = judge.max_output_tokens
    if schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": schema},
        }
    return body


def responses_body(
    judge: Judge, *, messages: Sequence[Message], schema: Mapping[str, object] | None
) -> dict[str, object]:
    """Return the body of a response; `store` is off, because it is on by default and keeps the texts."""
    body: dict[str, object] = {
        "model": judge.model,
        "input": said(messages),
        "store": False,
    }
    if judge.reasoning != "default":
        body["reasoning"] = {"effort": judge.reasoning} | ({} if judge.reasoning == "none" else {"summary": "auto"})
    if judge.temperature is not None:
        body["temperature"] = judge.temperature
    if judge.max_output_tokens is not None:
        body["max_output_tokens"] = judge.max_output_tokens
    if schema is not None:
        body["text"] = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}}
    return body


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct, gc=False):
    """A piece of content: text, a refusal, or thoughts."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    thinking: "list[_Chunk] | str | None" = None


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Chunk] | None = None
    refusal: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    message: _Message | None = None
    finish_reason: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    phase: str | None = None
    content: list[_Chunk] | None = None
    summary: list[_Chunk] | None = None


class _Problem(msgspec.Struct, gc=False):
    message: object = None
    type: object = None
    code: object = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class _Body(msgspec.Struct, gc=False):
    """A chat completion, a response or an error: only what is read of each, found quickest in the order of the wire."""

    created: float | None = None
    model: str | None = None
    created_at: float | None = None
    choices: list[_Choice] | None = None
    output: list[_Item] | None = None
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    error: _Problem | str | None = None
    usage: _Usage | None = None


class _Response(msgspec.Struct, gc=False):
    status_code: int = 200
    body: _Body | str | None = None


class _Line(msgspec.Struct, gc=False):
    custom_id: str
    response: _Response | None = None
    error: _Problem | str | None = None


class _LiveLine(msgspec.Struct, gc=False):
    request_id: str
    status: int
    body: _Body | str | None = None


_lines = LineDecoder(_Line)
_live_lines = LineDecoder(_LiveLine)


def decode_line(line: bytes) -> Output:
    """Return what one line of an output or error file says; raises ValueError if it cannot be read."""
    return _output(_lines.decode(line))


def decode_block(block: bytes) -> list[Output]:
    """Return what the lines of an output or error file say; raises ValueError if one of them cannot be read."""
    return list(map(_output, _lines.decode_lines(block)))


def decode_live_line(line: bytes) -> Output:
    """Return what one live answer says; raises ValueError if it cannot be read."""
    row = _live_lines.decode(line)
    return _answer(row.request_id, row.status, row.body)


def _output(row: _Line) -> Output:
    if row.response is None:
        return _without_response(row)
    return _answer(row.custom_id, row.response.status_code, row.response.body)


def _answer(request_id: str, status: int, answer: _Body | str | None) -> Output:
    body = answer if isinstance(answer, _Body) else _Body()
    if not 200 <= status < 300:
        return _failed(request_id, body, status=status)
    if body.output is not None or body.status is not None:
        return _response(request_id, body)
    if body.choices:
        return _completion(request_id, body, body.choices[0])
    return _failed(request_id, body, status=200)


def _without_response(row: _Line) -> Output:
    code = _code(row.error) or "no_response"
    kind = code.lower()
    if "expired" in kind:
        return Output(request_id=row.custom_id, status="expired", reason=code, again=True)
    if "cancel" in kind:
        return Output(request_id=row.custom_id, status="cancelled", reason=code)
    return errored(row.custom_id, code)


def _failed(request_id: str, body: _Body, *, status: int) -> Output:
    code = _code(body.error) or (f"http_{status}" if status != 200 else "no_answer")
    if code == "content_filter":
        return Output(request_id=request_id, status="refused", reason=code, returned_model=body.model)
    return errored(request_id, code, again=blames_provider(status), returned_model=body.model)


def _completion(request_id: str, body: _Body, choice: _Choice) -> Output:
    message = choice.message or _Message()
    content, thoughts = message.content, message.reasoning or message.reasoning_content
    if isinstance(content, list):
        content, inner = _contents(content)
        thoughts = inner or thoughts
    finish = choice.finish_reason
    plain = Output(
        request_id=request_id,
        status="answered",
        content=content,
        thoughts=thoughts,
        finish_reason=finish,
        returned_model=body.model,
        tokens=_tokens(body.usage),
        judged_at=body.created,
    )
    if finish == "content_filter":
        return msgspec.structs.replace(plain, status="refused", reason="content_filter")
    if message.refusal:
        return msgspec.structs.replace(plain, status="refused", reason="refusal", content=message.refusal)
    if finish == "length":
        return msgspec.structs.replace(plain, status="truncated", reason="length")
    return plain


def _contents(chunks: list[_Chunk]) -> tuple[str, str]:
    """Return answer and thoughts; some servers send the content in chunks and thoughts among them."""
    answer = "".join(chunk.text or "" for chunk in chunks if chunk.type != "thinking")
    return answer, "".join(_thinking(chunk) for chunk in chunks if chunk.type == "thinking")


def _thinking(chunk: _Chunk) -> str:
    if isinstance(chunk.thinking, list):
        return "".join(inner.text or "" for inner in chunk.thinking)
    return chunk.thinking or chunk.text or ""


def _response(request_id: str, body: _Body) -> Output:
    messages = [item for item in body.output or [] if item.type == "message" and item.phase != "commentary"]
    chunks = [chunk for item in messages for chunk in item.content or []]
    refusals = [chunk.refusal for chunk in chunks if chunk.refusal]
    thoughts = [part.text for item in body.output or [] if item.type == "reasoning" for part in item.summary or []]
    why = body.incomplete_details.reason if body.incomplete_details else None
    plain = Output(
        request_id=request_id,
        status="answered",
        content="".join(chunk.text or "" for chunk in chunks if chunk.type == "output_text"),
        thoughts="\n\n".join(filter(None, thoughts)) or None,
        finish_reason=why or body.status,
        returned_model=body.model,
        tokens=_tokens(body.usage),
        judged_at=body.created_at,
    )
    if body.status == "failed":
        code = _code(body.error) or "failed"
        again = code in {"server_error", "rate_limit_exceeded"}
        unpaid = wants_money(code)
        return msgspec.structs.replace(plain, status="errored", reason=code, again=again, unpaid=unpaid)
    if why == "content_filter":
        return msgspec.structs.replace(plain, status="refused", reason=why)
    if refusals:
        return msgspec.structs.replace(plain, status="refused", reason="refusal", content="".join(refusals))
    if body.status == "incomplete":
        return msgspec.structs.replace(plain, status="truncated", reason=why or "incomplete")
    return plain


def _tokens(usage: _Usage | None) -> Tokens:
    if usage is None:
        return Tokens()
    given = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    made = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    return Tokens(
        input=usage.input_tokens if usage.prompt_tokens is None else usage.prompt_tokens,
        cached=given.cached_tokens,
        output=usage.output_tokens if usage.completion_tokens is None else usage.completion_tokens,
        reasoning=made.reasoning_tokens,
    )


def _code(error: _Problem | str | None) -> str | None:
    if isinstance(error, str) or error is None:
        return error[:200] if error else None
    value = error.code or error.type or error.message
    return None if value is None else str(value)[:200]
