"""What is sent and what comes back: bodies that can be produced again, forms with a file, answers and their headers."""

from collections.abc import Callable, Iterator, Mapping

import httpx
import msgspec

_OF_THE_WAY = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer whose status and headers matter to the caller."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of a known size that can be produced again."""

    size: int
    chunks: Callable[[], Iterator[bytes]]


class Form:
    """A multipart form with one file that is streamed."""

    def __init__(self, fields: Mapping[str, str], name: str, body: Body, *, boundary: str) -> None:
        lead = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields.items()
        )
        lead += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        self._lead = f"{lead}Content-Type: application/octet-stream\r\n\r\n".encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self._body = body
        self.headers = {
            "content-type": f"multipart/form-data; boundary={boundary}",
            "content-length": str(len(self._lead) + body.size + len(self._tail)),
        }

    def __iter__(self) -> Iterator[bytes]:
        yield self._lead
        yield from self._body.chunks()
        yield self._tail


def with_content(response: httpx.Response, content: bytes) -> httpx.Response:
    """Return the answer with this content, and without the headers that say how it travelled."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WAY]
    return httpx.Response(response.status_code, headers=headers, content=content, request=response.request)
