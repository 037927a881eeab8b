"""What `doctor` says about a store that cannot be used: one line, with the remedy in it."""

from collections.abc import Callable

import pytest

from pipeline.cli import run
from pipeline.simulator import Simulator
from tests.storage.proxy import Proxy
from tests.storage.servers import READER, S3Server

_MALFORMED = b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting 'eu-west-1'</Message></Error>"


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Call doctor on a store that is broken; return the one line that says why."""

    def call(url: str) -> str:
        assert run(["doctor", "--store", url]) == 1
        said = capsys.readouterr().err
        (line,) = [line for line in said.splitlines() if line.startswith(f"doctor: store {url}: ")]
        assert said.rstrip().endswith(line)
        assert "secret-of-" not in said
        return line

    return call


def test_a_missing_permission_is_explained(
    s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch, complaint: Callable[[str], str]
) -> None:
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    assert "not permitted (AccessDenied); the role needs s3:GetObject" in complaint("s3://pairlog/doctor")


def test_a_wrong_region_is_explained(
    s3_environment: S3Server, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, complaint: Callable[[str], str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_proxy.url)
    s3_proxy.spoil(lambda _: True, (400, _MALFORMED), 1000)
    assert "another region; set AWS_DEFAULT_REGION to the bucket's own" in complaint("s3://pairlog/doctor")


def test_an_endpoint_that_speaks_another_language_is_explained(
    s3_environment: S3Server,
    simulate: Callable[[], Simulator],
    monkeypatch: pytest.MonkeyPatch,
    complaint: Callable[[str], str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", simulate().url)
    assert "not an S3 server (404); check AWS_ENDPOINT_URL" in complaint("s3://pairlog/doctor")


def test_wrong_keys_are_explained(
    s3_environment: S3Server, monkeypatch: pytest.MonkeyPatch, complaint: Callable[[str], str]
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    assert "the credentials are wrong or expired (SignatureDoesNotMatch)" in complaint("s3://pairlog/doctor")


def test_a_bucket_that_is_not_there_is_explained(gcs_server: str, complaint: Callable[[str], str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
        assert "there is no such bucket; make it, or check its name" in complaint("gs://no-such-bucket/doctor")
