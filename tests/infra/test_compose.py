"""The compose file: it is valid, keeps its secrets to those who need them, and its S3 server can hold a log."""

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from pipeline.clock import SystemClock
from pipeline.storage.probe import prove
from pipeline.storage.s3 import S3Store
from tests.infra.deployed import INFRA, SECRETS, command, document, environment, filled, service, texts
from tests.storage.servers import script, serving_s3

SERVICES = document("compose.yaml")["services"]
ONCE = {"migrate", "bucket"}


def test_the_file_is_a_valid_compose_file() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, INFRA / "compose.yaml"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_only_the_code_location_and_its_servers_are_given_keys() -> None:
    holders = {name for name, each in SERVICES.items() if any("S3_" in text for text in texts(each))}
    assert holders == {"code"}
    assert {name for name, each in SERVICES.items() if "env_file" in each} == {"code"}
    assert {name for name, each in SERVICES.items() if "configs" in each} == {"s3"}


def test_only_the_webserver_can_be_reached_and_only_from_this_machine() -> None:
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert list(published) == ["webserver"]
    assert [filled(port, {}) for port in published["webserver"]] == ["127.0.0.1:3000:3000"]


def test_every_secret_must_be_given_and_none_is_written_down() -> None:
    whole = (INFRA / "compose.yaml").read_text(encoding="utf-8")
    needed = set(re.findall(r"\$\{(\w+):\?", whole))
    assert needed == set(SECRETS) == set(_variables("example.env"))
    assert not any([*_variables("example.env").values(), *_variables("providers.example.env").values()])
    with pytest.raises(KeyError):
        filled(whole, {})
    written = {name: value for each in SERVICES.values() for name, value in each.get("environment", {}).items()}
    secret = {name: value for name, value in written.items() if re.search("KEY|SECRET|PASSWORD|PG_URL", name)}
    assert len(secret) == 4
    assert all("${" in value for value in secret.values())


def _variables(name: str) -> dict[str, str]:
    lines = (INFRA / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_files_with_secrets_are_never_committed_or_built_into_the_image() -> None:
    ignored = (INFRA.parent / ".gitignore").read_text(encoding="utf-8").split()
    assert {"infra/.env", f"infra/{service('code')['env_file'][0]}"} <= set(ignored)
    built = (INFRA / "Containerfile.dockerignore").read_text(encoding="utf-8").split()
    assert built[0] == "*"
    assert not any("env" in line for line in built)


def test_the_code_location_is_where_the_workspace_looks() -> None:
    (entry,) = document("dagster/workspace.yaml")["load_from"]
    server = entry["grpc_server"]
    said = command("code")
    assert said[said.index("--port") + 1] == str(server["port"])
    assert said[said.index("--location-name") + 1] == server["location_name"]
    shared = service("code")["network_mode"].removeprefix("service:")
    assert server["host"] in service(shared)["networks"]["default"]["aliases"]


def test_what_stays_up_says_when_it_is_well_and_is_started_again() -> None:
    for name, each in SERVICES.items():
        assert each["restart"] == ("no" if name in ONCE else "unless-stopped")
        assert ("healthcheck" in each) == (name not in ONCE), name


def test_the_image_is_built_from_files_that_are_there() -> None:
    lines = (INFRA / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {Path(name) for line in lines if re.match(r"COPY [^-]", line) for name in line.split()[1:-1]}
    allowed = {line[1:] for line in (INFRA / "Containerfile.dockerignore").read_text(encoding="utf-8").split()[1:]}
    for path in copied:
        assert (INFRA.parent / path).exists(), path
        assert {str(path), *map(str, path.parents)} & allowed, path
    assert sum(line.startswith("FROM docker.io/library/python:3.11-") for line in lines) == 2


def test_the_s3_server_lets_exactly_one_writer_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = subprocess.run([script("weed"), "version"], capture_output=True, text=True, check=True).stdout
    assert re.search(rf"\b{re.escape(service('s3')['image'].rpartition(':')[2])}\b", version)
    identities = tmp_path / "s3.json"
    identities.write_text(filled(document("compose.yaml")["configs"]["s3-identities"]["content"]))

    def started(ports: list[int]) -> list[str]:
        names = ("s3.port", "master.port", "volume.port", "filer.port")
        own = [f"-{name}={port}" for name, port in zip(names, ports[::2], strict=True)]
        own += [f"-{name}.grpc={port}" for name, port in zip(names, ports[1::2], strict=True)]
        return [script("weed"), *command("s3"), f"-dir={tmp_path}", f"-s3.config={identities}", *own]

    with serving_s3(started, log=tmp_path / "weed.log") as ports:
        assert _is_well(ports[0])
        for _ in range(2):
            _make_bucket(master=f"127.0.0.1:{ports[2]}.{ports[3]}")
        for name, value in environment("code").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{ports[0]}")
        prove(S3Store(environment("code")["PAIRLOG_STORE"]), SystemClock())


def _is_well(port: int) -> bool:
    address = service("s3")["healthcheck"]["test"][-1].replace(":8333", f":{port}")
    return httpx.get(address, trust_env=False).is_success


def _make_bucket(master: str) -> None:
    (line,) = service("bucket")["command"]
    shell = line.replace("127.0.0.1:9333", master).replace("weed shell", f"{script('weed')} shell")
    subprocess.run([*service("bucket")["entrypoint"], shell], check=True, capture_output=True, timeout=60)
