"""The values for Dagster's chart: what can be checked without a cluster."""

import importlib.metadata
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import botocore.configprovider
import botocore.credentials
import dagster._core.instance.utils
import dagster._core.storage.event_log.base
import pytest
import sqlalchemy
from dagster_postgres.utils import get_conn_string

from tests.infra.deployed import INFRA, command, document, environment, service, texts

VALUES = document("helm/values.yaml")
CODE = VALUES["dagster-user-deployments"]["deployments"][0]
DAEMON = VALUES["dagsterDaemon"]
INSTANCE = document("dagster/dagster.yaml")


def snake(values: object) -> object:
    """Return a part of the values with its keys as Dagster's own file writes them."""
    if not isinstance(values, dict):
        return values
    return {re.sub("([A-Z])", r"_\1", key).lower(): snake(value) for key, value in values.items()}


def test_the_chart_is_of_the_version_that_is_installed() -> None:
    said = re.findall(r"--version (\S+)", (INFRA / "helm" / "values.yaml").read_text(encoding="utf-8"))
    assert said == [importlib.metadata.version("dagster")]


def test_one_image_of_this_version_runs_everywhere() -> None:
    version = tomllib.loads((INFRA.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert CODE["image"] == VALUES["dagsterWebserver"]["image"] == DAEMON["image"]
    assert CODE["image"]["tag"] == version
    assert {service(name)["image"] for name in ("code", "daemon", "webserver", "migrate")} == {f"pairlog:{version}"}


def test_the_code_location_has_the_name_and_port_it_has_elsewhere() -> None:
    (entry,) = document("dagster/workspace.yaml")["load_from"]
    assert (CODE["name"], CODE["port"]) == (entry["grpc_server"]["location_name"], entry["grpc_server"]["port"])
    assert CODE["dagsterApiGrpcArgs"] == command("code")[-4:]


def test_the_daemon_is_set_as_it_is_on_one_machine() -> None:
    assert snake(DAEMON["runRetries"]) == INSTANCE["run_retries"]
    assert snake(DAEMON["sensors"]) == INSTANCE["sensors"]
    monitored = snake(DAEMON["runMonitoring"])
    assert isinstance(monitored, dict)
    assert INSTANCE["run_monitoring"].items() <= monitored.items()
    assert snake(VALUES["retention"]) == {"enabled": True, **INSTANCE["retention"]}
    assert VALUES["telemetry"] == INSTANCE["telemetry"]
    assert VALUES["additionalInstanceConfig"] == {"nux": INSTANCE["nux"]}


def test_limits_have_the_same_shape_with_more_places() -> None:
    many, few = snake(VALUES["concurrency"]), INSTANCE["concurrency"]
    assert isinstance(many, dict)
    (provider,), (as_before,) = (
        VALUES["concurrency"]["runs"]["tagConcurrencyLimits"],
        few["runs"]["tag_concurrency_limits"],
    )
    assert {**provider, "limit": 0} == {**as_before, "limit": 0}
    assert provider["limit"] < many["pools"]["default_limit"] < many["runs"]["max_concurrent_runs"]
    assert many["runs"]["max_concurrent_runs"] > few["runs"]["max_concurrent_runs"]


def test_the_address_of_the_database_names_the_driver_that_is_installed() -> None:
    database = VALUES["postgresql"]
    address = get_conn_string(
        username=database["postgresqlUsername"],
        password="",
        hostname="localhost",
        db_name=database["postgresqlDatabase"],
        port=database["service"]["port"],
        params=database["postgresqlParams"],
        scheme=database["postgresqlScheme"],
    )
    assert sqlalchemy.create_engine(address).driver == "psycopg2"
    assert sqlalchemy.create_engine(environment("daemon")["DAGSTER_PG_URL"]).driver == "psycopg2"


def test_keys_come_from_secrets_and_only_to_the_code_location() -> None:
    assert CODE["envSecrets"] == [{"name": "pairlog-providers"}]
    assert not VALUES["generatePostgresqlPasswordSecret"]
    assert not [text for text in texts(VALUES) if re.search("api_key|access_key|password$", text, re.IGNORECASE)]
    for other in (VALUES["dagsterWebserver"], DAEMON):
        assert "envSecrets" not in other
        assert {each["name"] for each in other["env"]} <= set(environment("daemon"))


def test_only_those_who_start_pods_may() -> None:
    assert VALUES["dagster-user-deployments"]["rbacEnabled"] is False
    assert VALUES["serviceAccount"]["name"] != VALUES["dagster-user-deployments"]["serviceAccount"]["name"]


def _names() -> Iterator[str]:
    yield from (name for each in ("code", "daemon", "webserver") for name in environment(each))
    yield from (each["name"] for holder in (CODE, DAEMON, VALUES["dagsterWebserver"]) for each in holder["env"])
    lines = (INFRA / "providers.example.env").read_text(encoding="utf-8").splitlines()
    yield from (line.removesuffix("=") for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("name", sorted(set(_names())))
def test_every_variable_is_read_by_somebody(name: str) -> None:
    readers = (
        dagster._core.instance.utils,
        dagster._core.storage.event_log.base,
        botocore.configprovider,
        botocore.credentials,
    )
    sources = [*map(inspect.getsource, readers), (INFRA / "dagster" / "dagster.yaml").read_text(encoding="utf-8")]
    sources += [path.read_text(encoding="utf-8") for path in Path(INFRA.parent / "pipeline").rglob("*.py")]
    assert any(re.search(rf"\b{name}\b", source) for source in sources)
