"""What only Together does: bytes put elsewhere, one file id for equal bytes, attempts found by the names of files."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import pytest

from pipeline import providers
from pipeline.clock import SystemClock
from pipeline.errors import AccountError, RejectedError, UnavailableError
from pipeline.providers import Sought
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from tests.providers.replies import KEY, LINES, Replies, a_submission, provider_on


def announced(location: str = "https://store.example/put?signature=s") -> httpx.Response:
    return httpx.Response(302, headers={"location": location, "x-together-file-id": "file-1"})


def a_file(name: str = "pl-1.jsonl") -> httpx.Response:
    return httpx.Response(200, json={"id": "file-1", "filename": name})


TAKEN = httpx.Response(409, json={"file_id": "file-1"})
ANNOUNCE, PUT, READ = "POST /v1/files", "PUT /put", "POST /v1/files/file-1/preprocess"
LOOK, DELETE = "GET /v1/files/file-1", "DELETE /v1/files/file-1"
GONE = httpx.Response(200, json={"id": "file-1", "deleted": True})


def test_together_puts_the_bytes_where_it_is_told_without_the_key() -> None:
    replies = Replies({ANNOUNCE: [announced()], PUT: [httpx.Response(200)], READ: [a_file()]})
    with provider_on("together", replies) as provider:
        assert provider.upload(a_submission()) == "file-1"
    assert replies.asked == [ANNOUNCE, PUT, READ]
    announce, put, read = replies.calls
    assert b'name="file_name"\r\n\r\npl-1.jsonl' in announce.content
    assert (put.url.host, put.content, put.headers["content-length"]) == ("store.example", LINES, str(len(LINES)))
    assert KEY not in str(put.headers.raw)
    assert announce.headers["authorization"] == read.headers["authorization"] == f"Bearer {KEY}"


def test_together_takes_a_file_that_came_with_our_name() -> None:
    replies = Replies({ANNOUNCE: [TAKEN], LOOK: [a_file("pl-1.jsonl")]})
    with provider_on("together", replies) as provider:
        assert provider.upload(a_submission()) == "file-1"
    assert replies.asked == [ANNOUNCE, LOOK]


def test_together_sends_a_file_of_an_earlier_attempt_anew_under_the_new_name() -> None:
    replies = Replies(
        {
            ANNOUNCE: [TAKEN, announced()],
            LOOK: [a_file("pl-0.jsonl")],
            DELETE: [GONE],
            PUT: [httpx.Response(200)],
            READ: [a_file()],
        }
    )
    with provider_on("together", replies) as provider:
        assert provider.upload(a_submission()) == "file-1"
    assert replies.asked == [ANNOUNCE, LOOK, DELETE, ANNOUNCE, PUT, READ]


def test_together_keeps_on_where_the_earlier_file_is_gone_already() -> None:
    gone = httpx.Response(404, json={"error": "not found"})
    put = {PUT: [httpx.Response(200)], READ: [a_file()]}
    replies = Replies({ANNOUNCE: [TAKEN, announced()], LOOK: [gone], DELETE: [gone], **put})
    with provider_on("together", replies) as provider:
        assert provider.upload(a_submission()) == "file-1"


def test_together_stops_where_a_file_could_not_be_found_again() -> None:
    replies = Replies({ANNOUNCE: [TAKEN], LOOK: [a_file("pl-0.jsonl")], DELETE: [GONE]})
    with provider_on("together", replies) as provider, pytest.raises(AccountError, match="delete that file") as raised:
        provider.upload(a_submission())
    assert not raised.value.mendable_by_waiting


@pytest.mark.parametrize("location", ["http://store.example/put", "ftp://store.example/put", "/put"])
def test_together_puts_no_text_where_others_could_read_it(location: str) -> None:
    replies = Replies({ANNOUNCE: [announced(location)]})
    with provider_on("together", replies) as provider, pytest.raises(RejectedError, match="not https"):
        provider.upload(a_submission())


def test_together_says_nothing_of_a_signature_when_a_put_fails() -> None:
    replies = Replies({ANNOUNCE: [announced()], PUT: [httpx.Response(403, text="expired")]})
    with provider_on("together", replies) as provider, pytest.raises(UnavailableError) as raised:
        provider.upload(a_submission())
    assert "signature" not in str(raised.value)


def test_together_finds_an_attempt_by_the_name_of_its_file(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": simulator.together_base_url})
    with contextlib.closing(
        providers.batch_module("together").build(settings, SystemClock(), transport=None)
    ) as provider:
        since = datetime.now(UTC)
        provider.upload(a_submission("pl-1"))  # an attempt that was refused left its file
        second = a_submission("pl-2")
        remote_id = provider.create(second, file_id=provider.upload(second))
        assert provider.find(Sought(batch_key="pl-1", since=since)) == []
        assert [batch.remote_id for batch in provider.find(Sought(batch_key="pl-2", since=since))] == [remote_id]


def test_together_has_one_file_id_for_equal_bytes_whatever_their_key(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": simulator.together_base_url})
    with contextlib.closing(
        providers.batch_module("together").build(settings, SystemClock(), transport=None)
    ) as provider:
        first, again, second = (provider.upload(a_submission(key)) for key in ("pl-1", "pl-1", "pl-2"))
        other = provider.upload(a_submission("pl-3", LINES.replace(b"hi", b"ho")))
    assert first == again == second
    assert other != first
    actions = [file.action for file in simulator.ledger.files]
    assert actions == ["uploaded", "deleted", "uploaded", "uploaded"]  # the second key's file took the first's place


def test_together_finds_a_batch_whose_file_was_just_deleted(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": simulator.together_base_url})
    with contextlib.closing(
        providers.batch_module("together").build(settings, SystemClock(), transport=None)
    ) as provider:
        since = datetime.now(UTC)
        submission = a_submission()
        file_id = str(provider.upload(submission))
        sought = Sought(batch_key="pl-1", since=since, files=(file_id,))
        assert provider.find(sought) == []
        remote_id = provider.create(submission, file_id=file_id)
        provider.discard(file_id)
        assert [batch.remote_id for batch in provider.find(sought)] == [remote_id]
