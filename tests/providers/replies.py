"""Single replies in the place of a server, and providers that get them."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx

from pipeline import providers
from pipeline.clock import FixedClock
from pipeline.domain import Judge
from pipeline.providers import Provider, Submission
from pipeline.settings import Settings

KEY = "canary-0123456789"
NOW = datetime(2026, 11, 16, 9, tzinfo=UTC)
LINES = b'{"custom_id":"a","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}\n'
ENVIRONMENT = {
    "OPENAI_API_KEY": KEY,
    "TOGETHER_API_KEY": KEY,
    "MISTRAL_API_KEY": KEY,
    "XAI_API_KEY": KEY,
    "GROQ_API_KEY": KEY,
    "AZURE_OPENAI_API_KEY": KEY,
    "AZURE_OPENAI_ENDPOINT": "https://meadow.openai.azure.com",
}


def a_submission(key: str = "pl-1", content: bytes = LINES) -> Submission:
    judge = Judge(provider="together", model="m")
    return Submission(
        batch_key=key, labels={}, judge=judge, requests=1, size=len(content), chunks=lambda: iter((content,))
    )


class Replies:
    """Answers calls by a table of "METHOD path" to replies, the last of which is given again; keeps what was asked."""

    def __init__(self, table: dict[str, list[httpx.Response]]) -> None:
        self._table = table
        self.calls: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.calls.append(request)
        replies = self._table[f"{request.method} {request.url.path}"]
        return replies.pop(0) if len(replies) > 1 else replies[0]

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.path}" for request in self.calls]


@contextlib.contextmanager
def provider_on(name: str, replies: Callable[[httpx.Request], httpx.Response]) -> Iterator[Provider]:
    clock = FixedClock(NOW)
    transport = httpx.MockTransport(replies)
    with contextlib.closing(
        providers.batch_module(name).build(Settings(ENVIRONMENT), clock, transport=transport)
    ) as provider:
        yield provider
