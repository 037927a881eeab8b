"""A real Dagster webserver with its daemon on a store and simulator of its own, and questions to it by GraphQL."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from pipeline.simulator import Simulator, environment

ROOT = Path(__file__).resolve().parents[2]
STORAGE_ERRORS = (OSError, ValueError)


class DagsterServer:
    """One `dagster dev` and how a test asks it."""

    def __init__(self, address: str, home: Path, process: subprocess.Popen[bytes]) -> None:
        self.address = address
        self.home = home
        self.process = process

    def ask(self, query: str, **variables: object) -> Any:
        """Return the answer to a GraphQL query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def until(self, what: str, seen: Callable[[], object], *, seconds: float = 180, pause: float = 0.5) -> object:
        """Wait until something is so and return it; the log of the server tells why it is not."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                found = seen()
            except STORAGE_ERRORS:
                found = None
            if found:
                return found
            time.sleep(pause)
        raise AssertionError(f"{what} did not come about in {seconds} s:\n{self.log()[-4000:]}")

    def log(self) -> str:
        return (self.home / "dagster.log").read_text(errors="replace")

    def is_ready(self) -> bool:
        found = self.ask(
            "{repositoriesOrError {... on RepositoryConnection {nodes {name}}} "
            "instance {daemonHealth {allDaemonStatuses {required healthy}}}}"
        )
        daemons = found["instance"]["daemonHealth"]["allDaemonStatuses"]
        return bool(found["repositoriesOrError"]["nodes"]) and all(d["healthy"] for d in daemons if d["required"])

    def partitions(self, asset: str) -> dict[str, int]:
        """Return how many partitions of the asset are materialized, failed, missing and under way."""
        found = self.ask(
            "query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode "
            "{partitionStats {numMaterialized numPartitions numFailed numMaterializing}}}}",
            key={"path": [asset]},
        )
        return dict(found["assetNodeOrError"]["partitionStats"])

    def is_green(self, asset: str, count: int) -> bool:
        return self.partitions(asset)["numMaterialized"] == count

    def launch(self, job: str, config: Mapping[str, object]) -> str:
        """Start a job as the launchpad does and return the id of the Dagster run."""
        selector = {"repositoryLocationName": "pairlog", "repositoryName": "__repository__", "jobName": job}
        found = self.ask(
            "mutation($params: ExecutionParams!) {launchRun(executionParams: $params) {__typename "
            "... on LaunchRunSuccess {run {runId}} ... on PythonError {message}}}",
            params={"selector": selector, "runConfigData": config},
        )
        return str(found["launchRun"]["run"]["runId"])

    def process_of(self, run_id: str) -> int | None:
        """Return the process that executes the Dagster run, once it does."""
        found = self.ask(
            "query($id: ID!) {logsForRun(runId: $id) {... on EventConnection "
            "{events {... on MessageEvent {message}}}}}",
            id=run_id,
        )
        said = " ".join(event.get("message", "") for event in found["logsForRun"]["events"])
        match = re.search(r"process \(pid: (\d+)\)", said)
        return int(match[1]) if match else None

    def runs(self) -> list[dict[str, str]]:
        found = self.ask("{runsOrError(limit: 200) {... on Runs {results {runId jobName status}}}}")
        return list(found["runsOrError"]["results"])


@contextmanager
def dagster_server(folder: Path, simulator: Simulator, experiments: Path, **more: str) -> Iterator[DagsterServer]:
    """Start `dagster dev` on a free port of this machine; stop it and all its children at the end."""
    home = folder / "home"
    home.mkdir(parents=True)
    shutil.copy(ROOT / "infra" / "dagster" / "local.yaml", home / "dagster.yaml")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "DAGSTER_HOME": str(home),
        "PAIRLOG_STORE": str(folder / "store"),
        "PAIRLOG_EXPERIMENTS": str(experiments),
        **environment(simulator.url),
        **more,
    }
    command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port)]
    with (home / "dagster.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log, start_new_session=True
        )
        server = DagsterServer(f"http://127.0.0.1:{port}", home, process)
        try:
            server.until("a healthy Dagster", server.is_ready)
            yield server
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGINT)
    psutil.wait_procs([psutil.Process(process.pid), *children] if process.poll() is None else children, timeout=20)
    for child in children:
        if child.is_running():
            child.kill()
    process.kill()
    process.wait()
