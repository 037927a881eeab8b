"""Lost, late and refused answers of an object store: nothing is written twice, nothing lost, each message helps."""

import itertools
from datetime import UTC, datetime

import pytest

from pipeline.clock import FixedClock
from pipeline.errors import ConfigError, ConflictError, MissingError, StoreError
from pipeline.events import BatchPlanned
from pipeline.ids import BatchId
from pipeline.storage import keys
from pipeline.storage._patience import Patience
from pipeline.storage.gcs import GcsStore
from pipeline.storage.log import read_commits
from pipeline.storage.s3 import S3Store
from tests.storage.logs import RUN, a_log
from tests.storage.proxy import Call, Proxy

KEY = "log/r/0.json"
QUICK = Patience(unclear=3.0, unreachable=1.0, first_pause=0.01, longest_pause=0.05)
_numbers = itertools.count(1)


class Remote:
    """A store behind a proxy, and what a create looks like on its wire."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.is_s3 = proxy.s3_client is not None
        self.url = f"{'s3' if self.is_s3 else 'gs'}://pairlog/faults-{next(_numbers)}"

    def store(self, patience: Patience = QUICK) -> S3Store | GcsStore:
        if self.is_s3:
            return S3Store(self.url, patience=patience, client=self.proxy.s3_client)
        return GcsStore(self.url, patience=patience)

    def is_create(self, call: Call) -> bool:
        return call.method == ("PUT" if self.is_s3 else "POST")

    def error(self, code: str) -> bytes:
        body = "<Error><Code>{}</Code><Message>m</Message></Error>" if self.is_s3 else '{{"error":{{"message":"{}"}}}}'
        return body.format(code).encode()


@pytest.fixture(params=["s3", "gcs"])
def remote(request: pytest.FixtureRequest) -> Remote:
    return Remote(request.getfixturevalue(f"{request.param}_proxy"))


@pytest.mark.parametrize("act", ["cut", "lost"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_create_whose_answer_is_lost_is_sent_again_until_it_is_known(remote: Remote, act: str, times: int) -> None:
    store = remote.store()
    remote.proxy.spoil(remote.is_create, act, times)  # type: ignore[arg-type] # a value of the table
    store.put_new(KEY, b"mine")
    assert store.get(KEY) == b"mine"
    creates = [call for call in remote.proxy.calls if remote.is_create(call)]
    assert len(creates) >= times + 1
    assert len({call.path for call in creates}) == 1


def test_an_upload_of_which_the_server_kept_nothing_is_not_gone_on_with(gcs_proxy: Proxy) -> None:
    """A 308 without a range says that no byte is there; going on behind the first would leave a hole."""
    store = Remote(gcs_proxy).store()
    gcs_proxy.spoil(lambda call: call.method == "PUT", (308, b""))
    with pytest.raises(StoreError, match="broke off"):
        store.put_parts(KEY, [b"a" * 2**18, b"b"])
    assert not store.exists(KEY)
    assert [call.method for call in gcs_proxy.calls if call.method == "PUT"] == ["PUT"]


def test_a_rival_that_wrote_first_is_seen_through_a_lost_answer(remote: Remote) -> None:
    remote.store().put_new(KEY, b"theirs")
    remote.proxy.spoil(remote.is_create, "cut", 2)
    with pytest.raises(ConflictError, match=r"log/r/0\.json"):
        remote.store().put_new(KEY, b"mine")
    assert remote.store().get(KEY) == b"theirs"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "ConditionalRequestConflict"),
        (409, "OperationAborted"),
        (503, "SlowDown"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (502, ""),
        (504, "GatewayTimeout"),
    ],
)
def test_a_busy_store_gets_the_same_bytes_at_the_same_key_again(remote: Remote, status: int, code: str) -> None:
    remote.proxy.spoil(remote.is_create, (status, remote.error(code)), 2)
    remote.store().put_new(KEY, b"mine")
    assert remote.store().get(KEY) == b"mine"
    assert sum(map(remote.is_create, remote.proxy.calls)) == 3


@pytest.mark.parametrize("act", [(503, "SlowDown"), (500, "InternalError")])
def test_an_outcome_that_stays_unknown_is_called_unknown(remote: Remote, act: tuple[int, str]) -> None:
    remote.proxy.spoil(remote.is_create, (act[0], remote.error(act[1])), 1000)
    with pytest.raises(StoreError, match=r"create log/r/0\.json .* outcome is unknown .*run the command again"):
        remote.store(patience=Patience(unclear=0.2, first_pause=0.01, longest_pause=0.05)).put_new(KEY, b"mine")


def test_an_append_whose_answer_was_lost_is_one_commit(remote: Remote) -> None:
    store = remote.store()
    log = a_log(store)
    for number in range(4):
        remote.proxy.spoil(remote.is_create, "lost" if number % 2 else "cut")
        log.append(BatchPlanned(batch_id=BatchId(f"b{number}"), segment=0, send=1, requests=1))
    planned = [event for commit, _ in read_commits(store, RUN) for event in commit.events]
    assert [event.batch_id for event in planned if isinstance(event, BatchPlanned)] == ["b0", "b1", "b2", "b3"]


def test_a_412_on_our_own_write_is_success_also_when_nothing_looked_lost(remote: Remote) -> None:
    store = remote.store()
    log = a_log(store, clock=FixedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    twin = a_log(store, clock=FixedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    event = BatchPlanned(batch_id=BatchId("b0"), segment=0, send=1, requests=1)
    log.append(event)
    assert twin.append(event) == log.state
    assert len(list(read_commits(store, RUN))) == 1


@pytest.mark.parametrize("act", ["cut", "lost"])
def test_a_read_that_breaks_is_repeated(remote: Remote, act: str) -> None:
    store = remote.store()
    store.put_new(KEY, b"mine")
    remote.proxy.spoil(lambda call: call.method in {"GET", "HEAD"}, act, 4)  # type: ignore[arg-type] # as above
    assert store.get(KEY) == b"mine"
    assert store.exists(KEY)
    assert store.list_from("log") == [KEY]


def test_bytes_that_do_not_match_their_checksum_are_read_again(s3_proxy: Proxy) -> None:
    store = Remote(s3_proxy).store()
    store.put_new(KEY, b"mine")
    s3_proxy.spoil(lambda call: call.method == "GET", "garbled", 2)
    assert store.get(KEY) == b"mine"
    s3_proxy.spoil(lambda call: call.method == "GET", "garbled", 1000)
    with pytest.raises(StoreError, match=r"read log/r/0\.json .* does not match its checksum"):
        store.get(KEY)


_STATUSES = {
    "s3": [
        (403, "AccessDenied", StoreError, "s3:GetObject, PutObject"),
        (403, "RequestTimeTooSkewed", StoreError, "clock is wrong"),
        (403, "SignatureDoesNotMatch", StoreError, "credentials are wrong"),
        (400, "ExpiredToken", StoreError, "renew the AWS_"),
        (301, "PermanentRedirect", ConfigError, "another region; set AWS_DEFAULT_REGION"),
        (400, "AuthorizationHeaderMalformed", ConfigError, "another region; set AWS_DEFAULT_REGION"),
        (404, "NoSuchBucket", ConfigError, "no such bucket"),
        (400, "InvalidArgument", StoreError, "AWS_ENDPOINT_URL speaks S3"),
    ],
    "gcs": [
        (403, "forbidden", StoreError, "storage.objects.create"),
        (401, "Invalid Credentials", StoreError, "application-default login"),
        (404, "The specified bucket does not exist.", ConfigError, "no such bucket"),
        (400, "invalid", StoreError, "STORAGE_EMULATOR_HOST speaks GCS"),
    ],
}


def test_a_refusal_is_explained_at_once_and_names_the_object(remote: Remote) -> None:
    for status, code, error, words in _STATUSES["s3" if remote.is_s3 else "gcs"]:
        remote.proxy.forget()
        remote.proxy.spoil(remote.is_create, (status, remote.error(code)))
        with pytest.raises(error) as caught:
            remote.store().put_new(KEY, b"mine")
        assert words in str(caught.value)
        assert KEY in str(caught.value)
        assert "\n" not in str(caught.value)
        assert sum(map(remote.is_create, remote.proxy.calls)) == 1


def test_a_missing_bucket_is_named(s3_environment: object, gcs_proxy: object) -> None:
    for store in (S3Store("s3://no-such-bucket"), GcsStore("gs://no-such-bucket")):
        with pytest.raises(ConfigError, match="no such bucket"):
            store.list_from("log")
        with pytest.raises((ConfigError, MissingError)):
            store.get(KEY)


@pytest.mark.parametrize("kind", [S3Store, GcsStore])
def test_an_endpoint_where_nobody_listens_is_named(
    kind: type[S3Store] | type[GcsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "canary")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    store = kind("s3://pairlog" if kind is S3Store else "gs://pairlog", patience=QUICK)
    with pytest.raises(StoreError, match="no server answers; check the network") as caught:
        store.get(keys.STORE)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("kind", [S3Store, GcsStore])
def test_plain_http_to_another_machine_is_refused_before_anything_is_sent(
    kind: type[S3Store] | type[GcsStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.example.com")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://store.example.com")
    with pytest.raises(ConfigError, match="use https"):
        kind("s3://pairlog" if kind is S3Store else "gs://pairlog", patience=QUICK).get(keys.STORE)


def test_an_endpoint_that_is_no_address_is_named(s3_environment: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for address, words in (("localhost:9000", "not an address"), ("ftp://127.0.0.1", "not a web address")):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with pytest.raises(ConfigError, match=words):
            S3Store("s3://pairlog", patience=QUICK).get(keys.STORE)


def test_a_profile_that_is_not_there_is_named(s3_environment: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match="correct AWS_PROFILE"):
        S3Store("s3://pairlog", patience=QUICK).get(keys.STORE)


def test_missing_credentials_are_named(
    s3_environment: object, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", f"{tmp_path}/none")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"{tmp_path}/none")
    with pytest.raises(ConfigError, match="no credentials; set AWS_PROFILE"):
        S3Store("s3://pairlog", patience=QUICK).get(keys.STORE)
