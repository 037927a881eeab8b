"""What the tests of the deployment arrange: a PostgreSQL, and Dagster's home as production has it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from tests.infra.deployed import INFRA, environment
from tests.infra.postgres import Postgres, postgresql


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgresql() as server:
        yield server


@pytest.fixture
def home(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Dagster's home with the file that is shipped, on an empty database, in the environment that compose gives."""
    return _enter(tmp_path / "dagster", postgres.database(tmp_path.name), monkeypatch)


@pytest.fixture(scope="session")
def with_tables(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database in which Dagster has made its tables; copying it is quicker than making them for every test."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        _enter(folder / "dagster", postgres.database("tables"), patch)
        dg.DagsterInstance.get().dispose()
    return "tables"


@pytest.fixture
def instance(
    postgres: Postgres, with_tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """The instance of production, on a database of this test's own."""
    _enter(tmp_path / "dagster", postgres.database(tmp_path.name, like=with_tables), monkeypatch)
    with dg.DagsterInstance.get() as found:
        yield found


def _enter(folder: Path, database: str, patch: pytest.MonkeyPatch) -> Path:
    folder.mkdir()
    shutil.copy(INFRA / "dagster" / "dagster.yaml", folder)
    for name, value in environment("daemon").items():
        patch.setenv(name, value)
    patch.setenv("DAGSTER_PG_URL", database)
    patch.setenv("DAGSTER_HOME", str(folder))
    return folder
