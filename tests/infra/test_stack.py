"""Webserver, daemon, code location and PostgreSQL as the compose file starts them, but for the containers."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import psutil
import pytest
import yaml

from tests.infra.deployed import command, document, environment, service
from tests.storage.servers import free_ports, script

READY_SECONDS = 100
ENDED = {dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED}
_LAUNCH = """
mutation Launch($job: String!, $tags: [ExecutionTag!]) {
  launchRun(executionParams: {
    selector: {jobName: $job, repositoryName: "__repository__", repositoryLocationName: "pairlog"},
    runConfigData: {}, executionMetadata: {tags: $tags}
  }) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } }
}
"""
_SENSORS = """
{ repositoriesOrError { ... on RepositoryConnection { nodes {
  name location { name } sensors { name sensorState { status } } assetNodes { assetKey { path } } } } } }
"""
Start = Callable[..., None]


@pytest.fixture
def start(home: Path, tmp_path: Path, experiment_file: Callable[..., Path]) -> Iterator[Start]:
    """Start services of the compose file as processes; they stop with the test."""
    own = {"PAIRLOG_STORE": str(tmp_path / "store"), "PAIRLOG_EXPERIMENTS": str(experiment_file().parent)}
    started: list[psutil.Popen] = []
    with ExitStack() as stack:
        stack.callback(_stop, started)

        def run(name: str, **replaced: str) -> None:
            asked = {key: os.environ.get(key, value) for key, value in environment(name).items()}
            program, *arguments = command(name, **replaced)
            log = stack.enter_context((tmp_path / f"{name}.log").open("wb"))
            started.append(
                psutil.Popen(
                    ["setpriv", "--pdeathsig=TERM", script(program), *arguments],
                    cwd=tmp_path,
                    env={**os.environ, **asked, **own},
                    stdout=log,
                    stderr=log,
                )
            )

        yield run


def _stop(processes: list[psutil.Popen]) -> None:
    family = [each for process in processes for each in (process, *process.children(recursive=True))]
    for each in family:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(family, timeout=10)


@pytest.mark.timeout(240)
def test_a_click_in_the_composed_stack_ends_in_postgresql(start: Start, tmp_path: Path) -> None:
    program, *arguments = command("migrate")
    subprocess.run([script(program), *arguments], check=True, capture_output=True)
    code, web = map(str, free_ports(2))
    start("code", host="127.0.0.1", port=code)
    workspace = tmp_path / "workspace.yaml"
    workspace.write_text(yaml.safe_dump(_on_loopback(document("dagster/workspace.yaml"), int(code))))
    _until(lambda: _is_open(code), tmp_path)
    assert _is_healthy("code", {"4000": code})
    start("daemon", workspace=str(workspace))
    start("webserver", host="127.0.0.1", port=web, workspace=str(workspace))
    _until(lambda: _is_open(web), tmp_path)
    assert _is_healthy("webserver", {":3000": f":{web}"})

    (repository,) = _ask(web, _SENSORS)["repositoriesOrError"]["nodes"]
    assert repository["location"]["name"] == "pairlog"
    assert {each["sensorState"]["status"] for each in repository["sensors"]} == {"RUNNING"}
    assert ["submitted_batches"] in [each["assetKey"]["path"] for each in repository["assetNodes"]]

    with dg.DagsterInstance.get() as instance:
        _until(lambda: "essays" in instance.get_dynamic_partitions("experiments"), tmp_path)
        asked = {"job": "make_pairs", "tags": [{"key": "dagster/partition", "value": "essays"}]}
        run_id = _ask(web, _LAUNCH, asked)["launchRun"]["run"]["runId"]
        _until(lambda: _status(instance, run_id) in ENDED, tmp_path)
        assert _status(instance, run_id) is dg.DagsterRunStatus.SUCCESS
        assert instance.get_materialized_partitions(dg.AssetKey("pairs")) == {"essays"}
    assert _is_healthy("daemon", {})
    assert [log.name for log in tmp_path.glob("*.log") if "canary" in log.read_text()] == []


def _status(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRunStatus | None:
    run = instance.get_run_by_id(run_id)
    return run.status if run else None


def _on_loopback(workspace: dict[str, Any], port: int) -> dict[str, object]:
    """Return the shipped workspace with the address that the code location has here."""
    (entry,) = workspace["load_from"]
    return {"load_from": [{"grpc_server": {**entry["grpc_server"], "host": "127.0.0.1", "port": port}}]}


def _is_open(port: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(port))) == 0


def _is_healthy(name: str, replaced: dict[str, str]) -> bool:
    """Run the service's own health check, with the ports it has here."""
    _, program, *arguments = service(name)["healthcheck"]["test"]
    for there, here in replaced.items():
        arguments = [word.replace(there, here) for word in arguments]
    return subprocess.run([script(program), *arguments], capture_output=True, check=False).returncode == 0


def _ask(port: str, query: str, variables: Mapping[str, object] | None = None) -> Any:
    body = {"query": query, "variables": variables or {}}
    answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json=body, timeout=30, trust_env=False).json()
    assert "errors" not in answer, answer
    return answer["data"]


def _until(holds: Callable[[], bool], logs: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail("\n".join(f"{log.name}\n{log.read_text()[-3000:]}" for log in logs.glob("*.log")))
        time.sleep(0.3)
