"""A real PostgreSQL for tests: Debian's server, in a folder of its own, on a loopback port, never as root."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import psycopg2

from tests.storage.servers import free_ports

PASSWORD = "only-for-this-test"
READY_SECONDS = 30
_QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


class Postgres(msgspec.Struct, frozen=True, kw_only=True):
    """A running server; every test makes a database of its own."""

    port: int

    def database(self, name: str, *, like: str = "template1") -> str:
        """Make a database as a copy of another; return its address as production writes it, driver included."""
        with closing(self.connect()) as connection:
            connection.autocommit = True
            connection.cursor().execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}"')
        return f"postgresql+psycopg2://dagster:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def connect(self) -> "psycopg2.extensions.connection":
        return psycopg2.connect(
            host="127.0.0.1", port=self.port, user="dagster", password=PASSWORD, dbname="postgres", connect_timeout=2
        )


@contextmanager
def postgresql() -> Iterator[Postgres]:
    """Serve until the block ends; the folder is one that the server's user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="pairlog-postgres-"))
    try:
        secret = folder / "password"
        secret.write_text(PASSWORD)
        _hand_over(folder, secret)
        make = ["initdb", f"--pgdata={folder}/data", "--username=dagster", "--auth=scram-sha-256", f"--pwfile={secret}"]
        subprocess.run(_as_nobody([*make, "--no-sync"]), cwd=folder, check=True, capture_output=True)
        with _serving(folder) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _serving(folder: Path) -> Iterator[Postgres]:
    server = Postgres(port=free_ports(1)[0])
    settings = {**_QUICK, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
    options = [f"--{name}={value}" for name, value in settings.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            _as_nobody(["postgres", "-D", f"{folder}/data", "-p", str(server.port), *options]),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_for(server, process, folder / "log")
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once, without waiting for clients
        process.wait(timeout=READY_SECONDS)


def _wait_for(server: Postgres, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.connect().close()
        except psycopg2.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"postgres did not start: {log.read_text()}")


def _as_nobody(command: list[str]) -> list[str]:
    """Return the command so that it dies with this process, and not as root, whom PostgreSQL refuses."""
    program, *arguments = command
    user = [f"--reuid={_nobody().pw_uid}", f"--regid={_nobody().pw_gid}", "--clear-groups"] if _is_root() else []
    return ["setpriv", "--pdeathsig=KILL", *user, _program(program), *arguments]


def _program(name: str) -> str:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name) or name


def _is_root() -> bool:
    return os.geteuid() == 0


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _hand_over(*paths: Path) -> None:
    if _is_root():
        for path in paths:
            os.chown(path, _nobody().pw_uid, _nobody().pw_gid)
