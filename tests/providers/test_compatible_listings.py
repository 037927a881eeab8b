"""Listings of the OpenAI-like providers: how far they are read, and when they prove that there is no batch."""

from datetime import timedelta
from typing import Any

import httpx
import pytest

from pipeline.errors import UnavailableError
from pipeline.providers import Sought
from tests.providers.replies import NOW, Replies, provider_on


def a_batch(number: int, key: str = "pl-9", age: timedelta = timedelta()) -> dict[str, Any]:
    created = int((NOW - age).timestamp())
    return {"id": f"batch_{number}", "status": "in_progress", "created_at": created, "metadata": {"batch_key": key}}


def found(name: str, pages: list[Any], key: str = "pl-1") -> tuple[list[str], int]:
    """What is found among these pages, and how many were asked for."""
    replies = iter(pages)
    asked: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=next(replies))

    with provider_on(name, reply) as provider:
        return [batch.remote_id for batch in provider.find(Sought(batch_key=key, since=NOW))], len(asked)


OLD = timedelta(hours=27)


def test_a_listing_is_read_until_a_whole_page_is_older_than_the_attempt() -> None:
    pages = [
        {"data": [a_batch(5), a_batch(4)], "has_more": True},
        {"data": [a_batch(3, "pl-1"), a_batch(2, age=OLD)], "has_more": True},
        {"data": [a_batch(1, age=OLD), a_batch(0, age=2 * OLD)], "has_more": True},
    ]
    assert found("openai", pages) == (["batch_3"], 3)


@pytest.mark.parametrize(
    "first",
    [
        [a_batch(5, age=OLD), a_batch(4)],
        [a_batch(5), a_batch(4, age=OLD)],
        [a_batch(5, age=2 * OLD), a_batch(4, age=OLD)],
        [{**a_batch(5), "created_at": 0}],
    ],
)
def test_an_entry_with_an_old_or_a_wrong_time_does_not_end_a_listing(first: list[dict[str, Any]]) -> None:
    pages = [{"data": first, "has_more": True}, {"data": [a_batch(3, "pl-1")], "has_more": False}]
    assert found("openai", pages) == (["batch_3"], 2)


def test_a_full_page_that_does_not_tell_whether_it_is_the_last_is_not() -> None:
    full = {"data": [a_batch(number) for number in range(100)]}
    assert found("openai", [full, {"data": [a_batch(100, "pl-1")]}]) == (["batch_100"], 2)
    assert found("openai", [full, full]) == ([], 2)


JOB = {"id": "job-1", "status": "RUNNING", "metadata": {"batch_key": "pl-1"}}
XAIS = {"batch_id": "batch_1", "name": "pl-1"}


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("openai", {"data": [a_batch(5, "pl-1"), a_batch(4)], "has_more": True}),
        ("openai", {"data": [], "has_more": True}),
        ("groq", {"data": [a_batch(5, "pl-1")], "has_more": True}),
        ("azure", {"value": [a_batch(5, "pl-1")], "has_more": True}),
        ("mistral", {"data": [JOB], "total": 9}),
        ("mistral", {"data": [JOB]}),
        ("mistral", {"data": [], "total": 9}),
        ("xai", {"batches": [XAIS], "pagination_token": "t"}),
    ],
)
def test_a_listing_whose_end_is_not_reached_proves_nothing(name: str, page: Any) -> None:
    with pytest.raises(UnavailableError, match="end was not reached"):
        found(name, [page, page, page])


@pytest.mark.parametrize("name", ["openai", "groq", "azure", "mistral", "xai", "together"])
@pytest.mark.parametrize("page", [{}, {"error": {"message": "busy"}}, {"data": None, "batches": None}, []])
def test_an_answer_without_a_list_is_no_listing(name: str, page: Any) -> None:
    answer = httpx.Response(200, json=page)
    with provider_on(name, lambda request: answer) as provider, pytest.raises(UnavailableError):
        provider.find(Sought(batch_key="pl-1", since=NOW))


def test_a_listing_without_times_is_read_on() -> None:
    pages = [
        {"data": [{"id": "batch_2", "status": "in_progress"}], "has_more": True},
        {"data": [a_batch(1, "pl-1")], "has_more": False},
    ]
    assert found("openai", pages) == (["batch_1"], 2)


def test_old_listings_of_azure_have_another_name() -> None:
    assert found("azure", [{"value": [a_batch(5, "pl-1")]}]) == (["batch_5"], 1)


def test_groq_is_asked_for_its_listing_without_a_cursor() -> None:
    replies = Replies({"GET /openai/v1/batches": [httpx.Response(200, json={"object": "list", "data": [a_batch(1)]})]})
    with provider_on("groq", replies) as provider:
        assert provider.find(Sought(batch_key="pl-1", since=NOW)) == []
    assert replies.calls[0].url.query == b""


def test_mistrals_jobs_are_read_page_by_page() -> None:
    jobs = [{"id": f"job-{n}", "status": "RUNNING", "metadata": {"batch_key": f"pl-{n}"}} for n in range(3)]
    pages = [{"data": jobs[:2], "total": 3}, {"data": jobs[2:], "total": 3}, {"data": [], "total": 3}]
    assert found("mistral", pages, "pl-2") == (["job-2"], 3)
    too_few = [{"data": jobs[:2], "total": 2}, {"data": jobs[2:], "total": 2}, {"data": jobs[2:], "total": 2}]
    assert found("mistral", too_few, "pl-2") == (["job-2"], 3)
    untold = [{"data": jobs[:2]}, {"data": jobs[2:]}, {"data": []}]
    assert found("mistral", untold, "pl-1") == (["job-1"], 3)


def test_xais_batches_are_read_page_by_page() -> None:
    batches = [{"batch_id": f"batch_{n}", "name": f"pl-{n}"} for n in range(2)]
    pages = [{"batches": batches[:1], "pagination_token": "t"}, {"batches": batches[1:], "pagination_token": None}]
    assert found("xai", pages, "pl-1") == (["batch_1"], 2)
