"""What is odd about single providers: Azure's files, xAI's results, Bedrock's library and bucket, failed batches."""

import contextlib
import json
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from botocore.stub import Stubber
from msgspec import structs

from pipeline import providers
from pipeline.clock import FixedClock, SystemClock
from pipeline.errors import (
    AccountError,
    ConfigError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    UnavailableError,
)
from pipeline.providers import together
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from tests.providers.replies import KEY, NOW, Replies, a_submission, provider_on


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
    providers.batch_module("bedrock").build(Settings(given), SystemClock(), transport=None)
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install boto3" in done.stdout


def _bedrock(**more: str) -> Any:
    given = {"PAIRLOG_BEDROCK_BUCKET": "s3://meadow/trial", "PAIRLOG_BEDROCK_ROLE": "arn", "AWS_REGION": "us-east-1"}
    keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}
    return providers.batch_module("bedrock").build(Settings(given | keys | more), SystemClock(), transport=None)


def test_lines_for_bedrock_that_no_temporary_file_holds_wait_with_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(UnavailableError, match="gone: No such file or directory; free some space"):
        _bedrock().upload(a_submission())


@pytest.mark.parametrize(
    ("tokens", "answers"),
    [(["t", None], ["a", "b"]), ([""], None), (["t", "t"], None)],
    ids=["all", "no token", "the same again"],
)
def test_answers_of_bedrock_are_all_of_them_or_none(tokens: list[str | None], answers: list[str] | None) -> None:
    """Half of the answers would pass for all of them, and the other half be paid for again."""
    provider = _bedrock()
    job = {
        "jobArn": "arn:job", "jobName": "pl-1", "status": "Completed", "modelId": "m", "roleArn": "arn",
        "submitTime": NOW, "inputDataConfig": {"s3InputDataConfig": {"s3Uri": "s3://meadow/in"}},
        "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": "s3://meadow/out/"}},
    }  # fmt: skip
    with Stubber(provider._bedrock) as bedrock, Stubber(provider._s3) as s3:
        bedrock.add_response("get_model_invocation_job", job)
        for number, token in enumerate(tokens):
            more = {"NextContinuationToken": token} if token else {}
            contents = [{"Key": f"out/{'abc'[number]}.jsonl.out"}]
            s3.add_response("list_objects_v2", {"IsTruncated": token is not None, "Contents": contents, **more})
        if answers is None:
            with pytest.raises(UnavailableError, match="announces more than it shows"):
                provider.status("arn:job")
        else:
            parts = provider.status("arn:job").parts
            assert list(parts.values()) == [f"s3://meadow/out/{name}.jsonl.out" for name in answers]
        s3.assert_no_pending_responses()


def test_a_sessions_token_that_amazon_repeats_is_in_no_error() -> None:
    """Whose signature is wrong is told what should have been signed, header by header."""
    token = "FwoGZXIvYXdzE" + 30 * "canary/+="
    provider = _bedrock(AWS_SESSION_TOKEN=token)
    told = f"{470 * ' '}'POST x-amz-security-token:{token} and {token.upper()}'"
    for call, method in (
        ("create_model_invocation_job", lambda: provider.create(a_submission(), file_id="s3://meadow/in.jsonl")),
        ("get_model_invocation_job", lambda: provider.status("arn:job")),
    ):
        with Stubber(provider._bedrock) as bedrock:
            bedrock.add_client_error(call, "InvalidSignatureException", told, http_status_code=403)
            with pytest.raises(AccountError) as caught:
                method()
        shown = "".join(traceback.format_exception(caught.value))
        assert "canary" not in shown.lower()
        assert "x-amz-security-token:***" in shown


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("RequestTimeout", 408, OutcomeUnknownError),
        ("RequestTimeout", 400, OutcomeUnknownError),
        ("RequestTimeoutException", 408, OutcomeUnknownError),
        ("ConflictException", 409, OutcomeUnknownError),
        ("InternalServerException", 500, OutcomeUnknownError),
        ("ThrottlingException", 429, UnavailableError),
        ("ThrottlingException", 400, UnavailableError),
        ("ValidationException", 400, RejectedError),
        ("AccessDeniedException", 403, AccountError),
    ],
)
def test_a_create_at_bedrock_that_timed_out_may_have_happened(
    code: str, status: int, expected: type[ProviderError]
) -> None:
    provider = _bedrock()
    with Stubber(provider._bedrock) as bedrock:
        bedrock.add_client_error("create_model_invocation_job", code, "slow", http_status_code=status)
        with pytest.raises(expected):
            provider.create(a_submission(), file_id="s3://meadow/in.jsonl")


def test_a_full_batch_is_not_too_large_for_together_at_a_later_attempt() -> None:
    full = structs.replace(a_submission(), size=together.LIMITS.max_bytes, labels={"attempt": "1000"})
    assert together.LIMITS.max_bytes < together._body_of(full).size < 100_000_000


@pytest.mark.parametrize("bucket", ["meadow", "gs://meadow", "s3://", "s3://UPPER/x"])
def test_a_bucket_of_bedrock_that_is_none_is_named(bucket: str) -> None:
    with pytest.raises(ConfigError, match="PAIRLOG_BEDROCK_BUCKET"):
        _bedrock(PAIRLOG_BEDROCK_BUCKET=bucket)


@pytest.mark.parametrize(
    ("name", "variable", "told"),
    [("ollama", "OLLAMA_HOST", "2 models"), ("compatible", "PAIRLOG_COMPATIBLE_BASE_URL", "1 model")],
)
def test_a_live_server_is_reached_by_a_free_call(
    name: str, variable: str, told: str, simulate: Callable[..., Simulator]
) -> None:
    simulator = simulate()
    address = {"ollama": simulator.ollama_host, "compatible": simulator.compatible_base_url}[name]
    module: Any = providers.module(name)
    assert module.check_live(Settings({variable: address}), SystemClock()) == told
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
