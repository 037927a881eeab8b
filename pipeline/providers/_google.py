"""Google's listings, the same on Gemini, Vertex and Cloud Storage, and the names of what it keeps."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from pipeline.errors import UnavailableError
from pipeline.providers._http import Http, quoted
from pipeline.providers._listings import pages


class Page(msgspec.Struct, rename="camel"):
    """What every page has."""

    next_page_token: str | None = None


P = TypeVar("P", bound=Page)


def google_pages(http: Http, path: str, kind: type[P], query: Mapping[str, str | int]) -> Iterator[P]:
    """Yield every page of a listing, or raise UnavailableError."""

    def page_at(token: str | None) -> P:
        params = {**query, **({"pageToken": token} if token else {})}
        return _page(http.get(path, dict[str, object], params=params), kind)

    return pages(path, page_at, lambda page: page.next_page_token, most=10_000)


def _page(answer: Mapping[str, object], kind: type[P]) -> P:
    """Return a page of a listing, or raise UnavailableError if it is something else.

    Google leaves out what is empty, so that nothing at all is an empty page; an answer without any member of a page, or
    with an error among them, is none.
    """
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    if "error" in answer or (answer and not known & answer.keys()):
        raise UnavailableError(f"a listing is something else: it has {', '.join(sorted(answer))[:200]}")
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise UnavailableError(f"the answer cannot be read: {error}") from error


def quoted_name(name: str) -> str:
    """Return a name, whose parts stand between slashes, as a part of an address."""
    return "/".join(map(quoted, name.split("/")))
