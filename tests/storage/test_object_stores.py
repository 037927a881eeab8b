"""What only object stores have: uploads in parts, ranges, marks, endpoints, and servers that must be refused."""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.clock import SystemClock
from pipeline.errors import ConfigError, ConflictError, StoreError
from pipeline.operations.moving import abandoned, give_up
from pipeline.storage import open_store
from pipeline.storage._parts import PART, parts_of
from pipeline.storage._patience import Patience
from pipeline.storage._ranges import Range, range_file
from pipeline.storage._s3_client import Answer, S3Client
from pipeline.storage.gcs import GcsStore, _related
from pipeline.storage.probe import ensure_proven
from pipeline.storage.s3 import S3Store
from pipeline.storage.streams import Measured, compressed, decompressed
from tests.storage.proxy import Proxy
from tests.storage.servers import ADMIN, S3Server, rclone

KEY = "outputs/r/b/1.output.jsonl.zst"


def _random_chunks(size: int, chunk: int = 700_001) -> Iterator[bytes]:
    for start in range(0, size, chunk):
        yield os.urandom(min(chunk, size - start))


@pytest.mark.parametrize("size", [PART - 1, PART, PART + 1, 2 * PART, 3 * PART - 7])
def test_a_stream_of_any_size_comes_back_byte_for_byte(remote_store: S3Store | GcsStore, size: int) -> None:
    sent = Measured(_random_chunks(size))
    remote_store.put_stream(KEY, sent)
    with remote_store.open(KEY) as file:
        got = Measured(iter(lambda: file.read(1 << 20), b"")).drained()
    assert (got.size, got.digest()) == (size, sent.digest())
    assert remote_store.sizes("outputs") == {KEY: size}


def test_a_big_stream_to_a_taken_key_is_refused_and_the_object_kept(remote_store: S3Store | GcsStore) -> None:
    remote_store.put_new(KEY, b"first")
    with pytest.raises(ConflictError, match=KEY):
        remote_store.put_stream(KEY, _random_chunks(2 * PART))
    assert remote_store.get(KEY) == b"first"


def test_of_two_big_uploads_at_once_the_second_to_end_is_refused(s3_store: S3Store) -> None:
    def rival() -> Iterator[bytes]:
        yield from _random_chunks(PART + 5)
        s3_store.put_new(KEY, b"rival")
        yield b"the end"

    with pytest.raises(ConflictError, match=KEY):
        s3_store.put_stream(KEY, rival())
    assert s3_store.get(KEY) == b"rival"
    assert s3_store.uploads() == []


def test_a_big_stream_that_breaks_is_never_visible_and_leaves_no_parts(s3_store: S3Store, gcs_store: GcsStore) -> None:
    for store in (s3_store, gcs_store):

        def broken(store: S3Store | GcsStore = store) -> Iterator[bytes]:
            yield from _random_chunks(PART + PART // 2)
            assert not store.exists(KEY)
            raise RuntimeError("the download broke off")

        with pytest.raises(RuntimeError):
            store.put_stream(KEY, broken())
        assert not store.exists(KEY)
        assert store.list_from("outputs") == []
    assert s3_store.uploads() == []


def test_an_upload_that_a_killed_process_left_is_found_and_given_up(s3_store: S3Store) -> None:
    s3_store._client.send("create_multipart_upload", Key=s3_store._place.name(KEY))
    clock = SystemClock()
    assert abandoned(s3_store, clock=clock, age=timedelta(hours=1)) == []
    left = abandoned(s3_store, clock=clock, age=timedelta(seconds=-60))
    assert [upload.key for upload in left] == [KEY]
    assert give_up(s3_store, left) == 1
    assert give_up(s3_store, left) == 1, "somebody else may have been first"
    assert s3_store.uploads() == []


def test_an_upload_that_somebody_gave_up_is_said_to_be(s3_store: S3Store) -> None:
    def given_up() -> Iterator[bytes]:
        yield from _random_chunks(PART + 5)
        give_up(s3_store, s3_store.uploads())
        yield from _random_chunks(PART)

    with pytest.raises(StoreError, match=f"{KEY}.*was given up meanwhile; run the command again"):
        s3_store.put_stream(KEY, given_up())
    assert not s3_store.exists(KEY)


@pytest.mark.parametrize("act", ["cut", "lost"])
def test_the_end_of_an_upload_whose_answer_is_lost_is_recognised(s3_proxy: Proxy, s3_store: S3Store, act: str) -> None:
    store = S3Store(s3_store.url, client=s3_proxy.s3_client, patience=Patience(first_pause=0.01))
    s3_proxy.spoil(lambda call: call.method == "POST" and "uploadId" in call.query, act, 2)  # type: ignore[arg-type] # a value of the table
    s3_proxy.spoil(lambda call: call.method == "PUT" and call.query.get("partNumber") == ["2"], act)  # type: ignore[arg-type] # as above
    sent = Measured(_random_chunks(2 * PART + 9))
    store.put_stream(KEY, sent)
    with s3_store.open(KEY) as file:
        assert Measured(iter(lambda: file.read(1 << 20), b"")).drained().digest() == sent.digest()


def test_thirty_megabytes_pass_in_bounded_memory(s3_store: S3Store) -> None:
    def lines() -> Iterator[bytes]:
        for number in range(24_000):
            yield b'{"custom_id":"%032x","text":"%b"}\n' % (number, os.urandom(600).hex().encode())

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent = Measured(lines())
    s3_store.put_stream(KEY, compressed(sent))
    with s3_store.open(KEY) as file:
        got = Measured(decompressed(file, key=KEY)).drained()
    assert (got.size, got.digest()) == (sent.size, sent.digest())
    assert sent.size > 30_000_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown * (1 if sys.platform == "darwin" else 1024) < 300 * 2**20


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 16))
def test_parts_are_the_same_bytes_in_parts_of_one_size(chunks: list[bytes], size: int) -> None:
    parts = list(parts_of(chunks, size))
    assert b"".join(parts) == b"".join(chunks)
    assert all(len(part) == size for part in parts[:-1])
    assert all(0 < len(part) <= size for part in parts)


@given(st.binary(max_size=300), st.lists(st.tuples(st.integers(0, 320), st.integers(-1, 320)), max_size=12))
def test_a_range_file_reads_like_a_file(body: bytes, reads: list[tuple[int, int]]) -> None:
    with range_file(lambda start, stop: Range(body=body[start:stop], size=len(body))) as file:
        for position, count in reads:
            assert file.seek(position) == position
            assert file.read(count) == (body[position:] if count < 0 else body[position : position + count])
        assert file.seek(0, 2) == len(body)


@pytest.mark.parametrize(
    "body", [b"\n--==0==--", b"\r\n--==0==\r\n", b"--" * 50, b"\r\n\r\n", b'{"name":"x"}'], ids=repr
)
def test_bytes_that_look_like_a_boundary_survive_gcs(gcs_store: GcsStore, body: bytes) -> None:
    gcs_store.put_new(KEY, body)
    assert gcs_store.get(KEY) == body


@given(st.binary(max_size=200))
def test_a_boundary_never_occurs_in_the_body(body: bytes) -> None:
    boundary, message = _related(b"{}", body)
    assert boundary.encode() not in body
    doubled, _ = _related(b"{}", body + boundary.encode())
    assert doubled.encode() not in body + boundary.encode()
    assert message.count(boundary.encode()) == 3


def test_the_server_of_rclone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buckets" / "pairlog").mkdir(parents=True)
    with rclone(tmp_path / "buckets") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        store = open_store("s3://pairlog/store")
        with pytest.raises(ConfigError, match=r"let \d of 8 writers create the same object"):
            ensure_proven(store, SystemClock())
        assert not store.exists("pairlog.json")


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter2@bucket/x",
        "gs://hunter2@bucket",
        "s3://bucket/x?secret=hunter2",
        "s3://",
        "gs:///x",
        "s3://a b",
    ],
)
def test_an_address_with_more_or_less_than_bucket_and_prefix_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_store(url)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["s3://bucket/a/../b", "gs://bucket/a//b", "s3://bucket/ü"])
def test_a_prefix_that_is_no_key_is_refused(url: str) -> None:
    with pytest.raises((ConfigError, StoreError)):
        open_store(url)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_prefix_that_leaves_no_room_for_keys_is_refused(scheme: str) -> None:
    with pytest.raises(ConfigError, match="its prefix has 599 bytes; 512 fit"):
        open_store(f"{scheme}://bucket/{'/'.join(['x' * 99] * 6)}/")


def test_two_prefixes_of_a_bucket_are_two_stores(s3_environment: S3Server, s3_store: S3Store) -> None:
    one, other = (S3Store(f"{s3_store.url}/{name}/", client=s3_store._client) for name in ("a", "ab"))
    one.put_new("log/r/a.json", b"1")
    other.put_new("log/r/b.json", b"2")
    assert (one.list_from("log"), other.list_from("log")) == (["log/r/a.json"], ["log/r/b.json"])
    assert one.url == f"{s3_store.url}/a"


def test_a_profile_in_a_file_is_enough(
    s3_server: S3Server, s3_store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = s3_server.environment()
    lines = [
        "[profile study]",
        f"endpoint_url = {settings['AWS_ENDPOINT_URL']}",
        f"aws_access_key_id = {settings['AWS_ACCESS_KEY_ID']}",
        f"aws_secret_access_key = {settings['AWS_SECRET_ACCESS_KEY']}",
        "region = us-east-1",
    ]
    (tmp_path / "config").write_text("\n".join(lines))
    for name in settings:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "study")
    store = S3Store(s3_store.url)
    store.put_new(KEY, b"mine")
    assert s3_store.get(KEY) == b"mine"
    assert settings["AWS_SECRET_ACCESS_KEY"] not in f"{store.url} {store!r} {store._client!r}"


class _Container(BaseHTTPRequestHandler):
    """Hands out keys as the agent of a container or pod does whose workload has an identity."""

    def do_GET(self) -> None:
        keys = {"AccessKeyId": ADMIN.name, "SecretAccessKey": ADMIN.secret, "Token": ""}
        body = msgspec.json.encode({**keys, "Expiration": "2099-01-01T00:00:00Z"})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_the_identity_of_a_workload_is_enough(
    s3_environment: S3Server, s3_store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with HTTPServer(("127.0.0.1", 0), _Container) as agent:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{agent.server_port}/keys")
        asked = threading.Thread(target=agent.handle_request)
        asked.start()
        S3Store(s3_store.url).put_new(KEY, b"mine")
        asked.join()
    assert s3_store.get(KEY) == b"mine"


class _ShortPages(S3Client):
    """Asks for listings in pages of three."""

    def send(self, method: str, **parameters: object) -> Answer:
        if method == "list_objects_v2":
            parameters["MaxKeys"] = 3
        return super().send(method, **parameters)


def test_a_listing_of_many_pages_is_whole_and_in_order(s3_environment: S3Server, s3_store: S3Store) -> None:
    names = [f"log/r{number % 4}/{number:020d}.json" for number in range(10)]
    for name in names:
        s3_store.put_new(name, b"{}")
    store = S3Store(s3_store.url, client=_ShortPages("pairlog"))
    assert store.list_from("log") == sorted(names)
    assert store.list_from("log/r1", after=names[1]) == [names[5], names[9]]
