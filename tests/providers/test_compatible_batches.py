"""What is odd about single providers' files, listings and results: over single replies, and on the simulator."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from pipeline import providers
from pipeline.clock import FixedClock, SystemClock
from pipeline.domain import Judge
from pipeline.errors import AccountError, ConfigError, RejectedError, UnavailableError
from pipeline.providers import Provider, Submission
from pipeline.settings import Settings
from pipeline.simulator import Simulator

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
        providers.module(name).build(Settings(ENVIRONMENT), clock, transport=transport)
    ) as provider:
        yield provider


# Together


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
    with contextlib.closing(providers.module("together").build(settings, SystemClock(), transport=None)) as provider:
        since = datetime.now(UTC)
        provider.upload(a_submission("pl-1"))  # an attempt that was refused left its file
        second = a_submission("pl-2")
        remote_id = provider.create(second, file_id=provider.upload(second))
        assert provider.find("pl-1", since=since) == []
        assert [batch.remote_id for batch in provider.find("pl-2", since=since)] == [remote_id]


def test_together_has_one_file_id_for_equal_bytes_whatever_their_key(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": simulator.together_base_url})
    with contextlib.closing(providers.module("together").build(settings, SystemClock(), transport=None)) as provider:
        first, again, second = (provider.upload(a_submission(key)) for key in ("pl-1", "pl-1", "pl-2"))
        other = provider.upload(a_submission("pl-3", LINES.replace(b"hi", b"ho")))
    assert first == again == second
    assert other != first
    actions = [file.action for file in simulator.ledger.files]
    assert actions == ["uploaded", "deleted", "uploaded", "uploaded"]  # the second key's file took the first's place


def test_together_finds_a_batch_whose_file_was_just_deleted(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    settings = Settings({"TOGETHER_API_KEY": KEY, "TOGETHER_BASE_URL": simulator.together_base_url})
    with contextlib.closing(providers.module("together").build(settings, SystemClock(), transport=None)) as provider:
        since = datetime.now(UTC)
        submission = a_submission()
        file_id = provider.upload(submission)
        assert provider.find("pl-1", since=since) == []
        remote_id = provider.create(submission, file_id=file_id)
        provider.discard(str(file_id))
        assert [batch.remote_id for batch in provider.find("pl-1", since=since)] == [remote_id]


# Listings


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
        return [batch.remote_id for batch in provider.find(key, since=NOW)], len(asked)


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
        provider.find("pl-1", since=NOW)


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
        assert provider.find("pl-1", since=NOW) == []
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


# Azure's files, xAI's results, Bedrock's library


@pytest.mark.parametrize(
    ("statuses", "error"),
    [
        (["pending", "running", "processed"], None),
        (["pending", "error"], RejectedError),
        (["pending"], UnavailableError),
    ],
)
def test_azure_creates_only_on_files_it_has_read(statuses: list[str], error: type[Exception] | None) -> None:
    looks = [httpx.Response(200, json={"id": "file-1", "status": status}) for status in statuses]
    path = "/openai/v1/files"
    replies = Replies({f"POST {path}": [httpx.Response(200, json={"id": "file-1"})], f"GET {path}/file-1": looks})
    expected = pytest.raises(error) if error else contextlib.nullcontext()
    with provider_on("azure", replies) as provider, expected:
        assert provider.upload(a_submission()) == "file-1"
    assert all(call.headers["api-key"] == KEY and "authorization" not in call.headers for call in replies.calls)


def test_xais_results_come_as_lines_whatever_white_space_they_have() -> None:
    results = [
        {"batch_request_id": name, "batch_result": {"error": {"code": 3, "message": "a\u2028b"}}} for name in "abc"
    ]
    pages = [
        httpx.Response(200, content=json.dumps({"results": results[:2], "pagination_token": "t"}, indent=2)),
        httpx.Response(200, json={"results": results[2:], "pagination_token": None}),
    ]
    with provider_on("xai", Replies({"GET /v1/batches/b/results": pages})) as provider:
        lines = b"".join(provider.download("b")).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == results


@pytest.mark.parametrize(
    "page",
    [
        {"results": [{"batch_request_id": "a"}], "pagination_token": "t"},
        {"error": {"message": "internal", "code": 13}},
        {"pagination_token": None},
        {},
    ],
)
def test_results_of_xai_that_are_not_whole_are_none(page: Any) -> None:
    replies = Replies({"GET /v1/batches/b/results": [httpx.Response(200, json=page)]})
    with provider_on("xai", replies) as provider, pytest.raises(UnavailableError):
        list(provider.download("b"))


def test_a_batch_of_bedrock_without_its_library_names_the_remedy() -> None:
    program = """
import sys
sys.modules["boto3"] = None
from pipeline import providers
from pipeline.clock import SystemClock
from pipeline.errors import ConfigError
from pipeline.settings import Settings
given = {"PAIRLOG_BEDROCK_BUCKET": "s3://meadow/trial", "PAIRLOG_BEDROCK_ROLE": "arn"}
try:
    providers.module("bedrock").build(Settings(given), SystemClock(), transport=None)
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install boto3" in done.stdout


@pytest.mark.parametrize("bucket", ["meadow", "gs://meadow", "s3://", "s3://UPPER/x"])
def test_a_bucket_of_bedrock_that_is_none_is_named(bucket: str) -> None:
    given = {
        "PAIRLOG_BEDROCK_BUCKET": bucket,
        "PAIRLOG_BEDROCK_ROLE": "arn",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
    }
    with pytest.raises(ConfigError, match="PAIRLOG_BEDROCK_BUCKET"):
        providers.module("bedrock").build(Settings(given), SystemClock(), transport=None)


@pytest.mark.parametrize(
    ("name", "variable"), [("ollama", "OLLAMA_HOST"), ("compatible", "PAIRLOG_COMPATIBLE_BASE_URL")]
)
def test_a_live_server_is_reached_by_a_free_call(name: str, variable: str, simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    address = {"ollama": simulator.ollama_host, "compatible": simulator.compatible_base_url}[name]
    module: Any = providers.module(name)
    assert module.check_live(Settings({variable: address}), SystemClock()).endswith(" models")
    assert simulator.ledger.totals.requests == 0
    with pytest.raises(UnavailableError):
        module.check_live(Settings({variable: "http://127.0.0.1:9"}), FixedClock(NOW))


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("openai", {"id": "b", "status": "failed", "output_file_id": "f"}),
        ("mistral", {"id": "b", "status": "FAILED", "errors": [{"message": "Internal error"}], "output_file": "f"}),
        ("together", {"id": "b", "status": "FAILED", "error": "Internal error", "output_file_id": "f"}),
        (
            "xai",
            {
                "batch_id": "b",
                "cancel_by_xai_message": "Internal error",
                "state": {"num_requests": 9, "num_success": 4},
            },
        ),
    ],
)
def test_answers_of_a_batch_that_its_provider_failed_are_kept_and_the_rest_sent_again(name: str, answer: Any) -> None:
    with provider_on(name, lambda request: httpx.Response(200, json=answer)) as provider:
        batch = provider.status("b")
    assert (batch.end, batch.fault, list(batch.parts.values())) == ("expired", None, ["b" if name == "xai" else "f"])
