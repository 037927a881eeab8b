"""What only Vertex does: a bucket of ours, shards, hosts by place, tokens that grow old."""

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from google.auth.exceptions import RefreshError, TransportError

from pipeline.clock import FixedClock
from pipeline.domain import Judge
from pipeline.errors import AccountError, ConfigError, RejectedError, UnavailableError
from pipeline.providers import Sought, Submission, vertex
from pipeline.providers._gcs import Place, Token, signer
from pipeline.providers._http import Http
from pipeline.settings import Settings

NOW = datetime(2026, 11, 16, tzinfo=UTC)
LOCAL = {
    "GOOGLE_CLOUD_PROJECT": "meadow-815",
    "PAIRLOG_VERTEX_BUCKET": "gs://meadow/trial/",
    "GOOGLE_VERTEX_BASE_URL": "http://127.0.0.1:9",
    "STORAGE_EMULATOR_HOST": "127.0.0.1:9",
}
KEY = "pl-0123456789abcdef0123456789abcdef"


def a_submission(lines: bytes = b"{}\n") -> Submission:
    judge = Judge(provider="vertex", model="gemini-3.8-flash")
    return Submission(batch_key=KEY, labels={}, judge=judge, requests=1, size=len(lines), chunks=lambda: iter([lines]))


def built(answer: Callable[[httpx.Request], httpx.Response], **environment: str) -> vertex.Vertex:
    settings = Settings({**LOCAL, **environment})
    return vertex.build(settings, FixedClock(NOW), transport=httpx.MockTransport(answer))


class Calls:
    """Answers with what was prepared, in order, and remembers the calls."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.seen: list[httpx.Request] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.seen.append(request)
        return self._answers.pop(0)


def test_the_input_is_created_once_under_our_key() -> None:
    calls = Calls(httpx.Response(200, json={"name": "x"}))
    with closing(built(calls)) as provider:
        assert provider.upload(a_submission()) == f"gs://meadow/trial/in/{KEY}.jsonl"
    url = calls.seen[0].url
    assert (calls.seen[0].method, url.path) == ("POST", "/upload/storage/v1/b/meadow/o")
    assert dict(url.params) == {"uploadType": "media", "name": f"trial/in/{KEY}.jsonl", "ifGenerationMatch": "0"}
    assert "authorization" not in calls.seen[0].headers


def test_an_upload_whose_answer_was_lost_is_recognised() -> None:
    calls = Calls(httpx.Response(503), httpx.Response(412), httpx.Response(200, json={"name": "x", "size": "3"}))
    with closing(built(calls)) as provider:
        assert provider.upload(a_submission(b"{}\n")).endswith(f"{KEY}.jsonl")


def test_an_object_of_another_size_is_not_ours() -> None:
    calls = Calls(httpx.Response(412), httpx.Response(200, json={"name": "x", "size": "99"}))
    with closing(built(calls)) as provider, pytest.raises(RejectedError, match="99 bytes"):
        provider.upload(a_submission())


def test_a_job_names_our_key_thrice() -> None:
    name = "projects/815/locations/global/batchPredictionJobs/1"
    calls = Calls(httpx.Response(200, json={"name": name}))
    with closing(built(calls)) as provider:
        assert provider.create(a_submission(), file_id="gs://meadow/in.jsonl") == name
    assert calls.seen[0].url.path == "/v1/projects/meadow-815/locations/global/batchPredictionJobs"
    assert json.loads(calls.seen[0].content) == {
        "displayName": KEY,
        "model": "publishers/google/models/gemini-3.8-flash",
        "labels": {"batch_key": KEY},
        "inputConfig": {"instancesFormat": "jsonl", "gcsSource": {"uris": ["gs://meadow/in.jsonl"]}},
        "outputConfig": {
            "predictionsFormat": "jsonl",
            "gcsDestination": {"outputUriPrefix": f"gs://meadow/trial/out/{KEY}"},
        },
    }


def a_bucket(**objects: bytes) -> Callable[[httpx.Request], httpx.Response]:
    """A bucket with these objects under `out/`."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/o"):
            return httpx.Response(200, json={"items": [{"name": f"out/d/{name}"} for name in objects]})
        return httpx.Response(200, content=objects[request.url.path.rpartition("/")[2]])

    return answer


def test_all_shards_are_read_and_stay_apart() -> None:
    bucket = a_bucket(
        **{"predictions_1.jsonl": b'{"a":1}', "predictions_2.jsonl": b'{"a":2}\n', "manifest.json": b"{}"}
    )
    with closing(built(bucket)) as provider:
        assert b"".join(provider.download("gs://meadow/out/d")) == b'{"a":1}\n{"a":2}\n'


def test_a_shard_that_is_not_there_yet_is_missed() -> None:
    bucket = a_bucket(**{"predictions-00000-of-00003.jsonl": b"{}\n", "predictions-00002-of-00003.jsonl": b"{}\n"})
    with closing(built(bucket)) as provider, pytest.raises(RejectedError, match="1 of 3 shards"):
        list(provider.download("gs://meadow/out/d"))


def test_promised_results_must_be_there_and_others_need_not() -> None:
    with closing(built(a_bucket())) as provider:
        assert list(provider.download("gs://meadow/out/d/")) == []
        with pytest.raises(RejectedError, match="predictions"):
            list(provider.download("gs://meadow/out/d"))


@pytest.mark.parametrize(
    "page",
    [
        {"nextPageToken": "again"},
        {"message": "upstream is restarting"},
        {"batchPredictionJobs": [], "error": {"code": 13}},
    ],
)
def test_what_is_no_whole_listing_proves_nothing(page: dict[str, Any]) -> None:
    with closing(built(lambda request: httpx.Response(200, json=page))) as provider:
        with pytest.raises(UnavailableError):
            provider.find(Sought(batch_key=KEY, since=NOW))
        with pytest.raises(UnavailableError):
            list(provider.download("gs://meadow/out/d/"))


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us-central1", "us-central1-aiplatform.googleapis.com"),
    ],
)
def test_the_host_follows_the_place(location: str, host: str) -> None:
    assert vertex._host(location) == f"https://{host}"


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"GOOGLE_CLOUD_PROJECT": ""}, "GOOGLE_CLOUD_PROJECT is not set"),
        ({"GOOGLE_CLOUD_PROJECT": "a/../b"}, "GOOGLE_CLOUD_PROJECT"),
        ({"GOOGLE_CLOUD_LOCATION": "evil.example/"}, "GOOGLE_CLOUD_LOCATION"),
        ({"PAIRLOG_VERTEX_BUCKET": ""}, "PAIRLOG_VERTEX_BUCKET is not set"),
        ({"PAIRLOG_VERTEX_BUCKET": "", "PAIRLOG_STORE": "gcs://quarry"}, "PAIRLOG_VERTEX_BUCKET is not set"),
        ({"PAIRLOG_VERTEX_BUCKET": "s3://meadow"}, "gs://bucket/prefix"),
        ({"STORAGE_EMULATOR_HOST": "http://storage.example"}, "plain http"),
    ],
)
def test_settings_that_cannot_work_are_named(environment: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        built(Calls(), **environment)


def test_the_bucket_of_the_store_is_taken_unless_one_is_named() -> None:
    calls = Calls(httpx.Response(200, json={"name": "x"}))
    with closing(built(calls, PAIRLOG_VERTEX_BUCKET="", PAIRLOG_STORE="gs://quarry/studies")) as provider:
        assert provider.upload(a_submission()) == f"gs://quarry/pairlog-vertex/in/{KEY}.jsonl"


def test_every_call_is_signed_anew() -> None:
    tokens = iter(["one", "two"])
    calls = Calls(*(httpx.Response(200, json={}) for _ in range(2)))
    http = Http(
        "https://x.example", {}, FixedClock(NOW), transport=httpx.MockTransport(calls),
        sign=lambda: {"authorization": f"Bearer {next(tokens)}"},
    )  # fmt: skip
    with closing(http):
        http.get("/a", dict)
        http.get("/b", dict)
    assert [call.headers["authorization"] for call in calls.seen] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("uri", "shown"), [("gs://b-1", "gs://b-1/"), ("gs://b-1/", "gs://b-1/"), ("gs://b-1/c/d/", "gs://b-1/c/d")]
)
def test_places_are_read_with_and_without_slashes(uri: str, shown: str) -> None:
    assert str(Place.of(uri, source="x")) == shown


def test_the_request_id_travels_in_the_labels() -> None:
    frame = vertex.frame(Judge(provider="vertex", model="gemini-3.8-flash"), schema=None)
    line = json.loads(b"GAP".join(frame.texts))
    assert line["request"]["labels"] == {"request_id": "GAP"}
    assert list(line) == ["request"]


@pytest.mark.parametrize("more", [{"model": "claude-haiku-5-5"}, {"model": "publishers/anthropic/models/claude-x"}])
def test_claude_is_sent_elsewhere(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="provider anthropic"):
        vertex.check_judge(Judge(provider="vertex", **more))


def test_an_error_that_says_nothing_is_final() -> None:
    line = {"status": "odd", "request": {"labels": {"request_id": "r"}}, "response": {}}
    output = vertex.decode(json.dumps(line).encode())
    assert (output.status, output.reason, output.again) == ("errored", "odd", False)


def test_missing_credentials_are_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    with pytest.raises(ConfigError, match="gcloud auth application-default login"):
        signer("https://aiplatform.googleapis.com")


def test_no_token_is_made_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    assert signer("http://127.0.0.1:9")() == {}


class Credentials:
    """Credentials whose token lasts for one call."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.token = ""
        self.valid = False
        self._problem = problem

    def refresh(self, request: object) -> None:
        if self._problem is not None:
            raise self._problem
        self.token += "x"


def test_a_token_that_is_old_is_made_anew() -> None:
    credentials = Credentials()
    token = Token(credentials, request=None)
    assert [token.headers()["authorization"] for _ in range(2)] == ["Bearer x", "Bearer xx"]
    credentials.valid = True
    assert token.headers() == {"authorization": "Bearer xx"}


@pytest.mark.parametrize(
    ("problem", "error"), [(TransportError("cut"), UnavailableError), (RefreshError("revoked"), AccountError)]
)
def test_a_token_that_cannot_be_made_is_told_as_ours(problem: Exception, error: type[Exception]) -> None:
    with pytest.raises(error):
        Token(Credentials(problem), request=None).headers()
