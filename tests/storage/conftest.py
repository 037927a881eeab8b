"""Stores on real servers, one server of a kind for each test process, an own prefix for each test."""

import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from pipeline.storage._s3_client import S3Client
from pipeline.storage.gcs import GcsStore
from pipeline.storage.s3 import S3Store
from tests.storage.ceph import ceph
from tests.storage.proxy import Proxy, proxied
from tests.storage.servers import IDENTITIES, S3Server, connected, fake_gcs, seaweedfs
from tests.storage.studying import WorkerOn, a_worker

BUCKET = "pairlog"
_prefixes = itertools.count(1)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    serve = {"seaweedfs": seaweedfs, "ceph": ceph}[os.environ.get("PAIRLOG_S3_SERVER", "seaweedfs")]
    with serve(tmp_path_factory.mktemp("s3"), IDENTITIES) as server:
        yield server


@pytest.fixture(scope="session")
def s3_client(s3_server: S3Server) -> S3Client:
    return connected(s3_server.environment(), BUCKET, "create_bucket")


@pytest.fixture
def s3_store(s3_client: S3Client) -> S3Store:
    return S3Store(f"s3://{BUCKET}/test-{next(_prefixes)}", client=s3_client)


@pytest.fixture
def s3_environment(s3_server: S3Server, s3_client: S3Client, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The environment of a process that uses the server as its administrator."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(scope="session")
def _s3_proxied(s3_server: S3Server, s3_client: S3Client) -> Iterator[Proxy]:
    with proxied(s3_server.endpoint) as proxy:
        through = {**s3_server.environment(), "AWS_ENDPOINT_URL": proxy.url}
        proxy.s3_client = connected(through, BUCKET, "head_bucket")
        yield proxy


@pytest.fixture
def s3_proxy(_s3_proxied: Proxy) -> Proxy:
    """A proxy in front of the server, with a client that goes through it."""
    _s3_proxied.forget()
    return _s3_proxied


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with fake_gcs(tmp_path_factory.mktemp("gcs")) as url:
        httpx.post(f"{url}/storage/v1/b", json={"name": BUCKET}, trust_env=False).raise_for_status()
        yield url


@pytest.fixture
def gcs_store(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> GcsStore:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs_server)
    return GcsStore(f"gs://{BUCKET}/test-{next(_prefixes)}")


@pytest.fixture
def gcs_proxy(gcs_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy that stores made from here on go through."""
    with proxied(gcs_server) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        yield proxy


@pytest.fixture(params=["s3", "gcs"])
def remote_store(request: pytest.FixtureRequest) -> S3Store | GcsStore:
    """Each object store in turn."""
    store: S3Store | GcsStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture
def worker_on() -> Iterator[WorkerOn]:
    """Build workers on any store; they close with the test."""
    with ExitStack() as stack:
        yield lambda store, simulator: stack.enter_context(a_worker(store, simulator))
