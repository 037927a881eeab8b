"""The reference names what there is, and nothing else: a key, option, column or variable that drifts fails here."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pandas as pd
import pyarrow as pa
import pytest
import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

from pipeline.cli import run
from pipeline.cli.app import app
from pipeline.domain import Checks, Tags
from pipeline.events import Commit
from pipeline.experiment import read_experiment
from pipeline.experiment.spec import BatchSpec, ExperimentFile, JudgeSpec, OwnCriterion, PairsSpec, PriceSpec
from pipeline.ids import ExperimentName
from pipeline.operations.reading.answers import answers_of, store_answers
from pipeline.operations.workers.worker import Worker
from pipeline.prices import Spent
from pipeline.ranking import RankingOptions
from pipeline.ranking.tables import DIAGNOSTICS, RANKINGS
from pipeline.settings import Settings
from pipeline.simulator import Simulator
from pipeline.tasks import task_keys, tasks
from pipeline.tasks.grading import Scale
from tests.conftest import environment
from tests.docs.lookups import ASKED, variables_read
from tests.flows.studies import finished

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FILE, COMMANDS = DOCS / "reference" / "experiment-file.md", DOCS / "reference" / "commands.md"
ENVIRONMENT, TABLES = DOCS / "reference" / "environment.md", DOCS / "reference" / "tables.md"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

Rows = list[list[str]]


@cache
def tables(page: Path) -> dict[str, list[Rows]]:
    """The tables of a page by the heading above them, without their own headings."""
    found: dict[str, list[Rows]] = {"": []}
    heading, before = "", ""
    for line in re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL).split("\n"):
        if line.startswith("#"):
            heading = line.lstrip("# ").strip("`")
            assert found.setdefault(heading, []) == [], f"{page.name} has two headings {heading}"
        elif line.startswith("|---"):
            found[heading].append([])
        elif line.startswith("|") and before.startswith("|") and found[heading]:
            found[heading][-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        before = line
    return found


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def first_names(rows: Rows) -> list[str]:
    return [name for row in rows for name in named(row[0])]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


STRUCTS: dict[str, type[msgspec.Struct]] = {
    "Keys": ExperimentFile, "judges": JudgeSpec, "criterion": OwnCriterion, "pairs": PairsSpec, "batch": BatchSpec,
    "tags": Tags, "checks": Checks, "scale": Scale,
}  # fmt: skip


@pytest.mark.parametrize("heading", STRUCTS)
def test_the_tables_of_keys_name_the_fields_of_the_file(heading: str) -> None:
    (rows,) = tables(FILE)[heading]
    fields = msgspec.structs.fields(STRUCTS[heading])
    assert [named(row[0]) for row in rows] == [[field.name] for field in fields]
    assert [row[2] == "required" for row in rows] == [field.required for field in fields]


def test_a_price_has_the_keys_that_the_reference_says() -> None:
    (said,) = [named(row[3]) for row in tables(FILE)["judges"][0] if named(row[0]) == ["price"]]
    assert said == [field.name for field in msgspec.structs.fields(PriceSpec)]


def test_each_task_takes_the_keys_that_the_reference_says() -> None:
    taken, own = tables(FILE)["Keys of one task"]
    said = {named(row[0])[0]: (named(row[1]), set(named(row[2]))) for row in taken}
    assert said == {name: ([tasks()[name].TABLE], set(keys.all)) for name, keys in task_keys().items()}
    assert set(first_names(own)) == {key for keys in task_keys().values() for key in keys.own.__struct_fields__}


def test_the_examples_of_the_file_can_be_read() -> None:
    examples = blocks(FILE, "yaml")
    assert examples
    for text in examples:
        read_experiment(text.encode(), source=FILE.name, tasks=task_keys())


def commands(command: TyperGroup | TyperCommand, path: str = "pairlog") -> Iterator[tuple[str, TyperCommand]]:
    """Every command that does something, under how it is called."""
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            assert isinstance(inner, TyperGroup | TyperCommand)
            yield from commands(inner, f"{path} {name}")
    else:
        arguments = [each for each in command.params if isinstance(each, TyperArgument)]
        yield " ".join([path, *(argument_shown(each) for each in arguments)]), command


def argument_shown(argument: TyperArgument) -> str:
    name = str(argument.metavar)
    shown = name if argument.required or name.startswith("[") else f"[{name}]"
    return f"{shown}..." if argument.nargs == -1 else shown


PROGRAM = typer.main.get_command(app)
assert isinstance(PROGRAM, TyperGroup)
CALLS = dict(commands(PROGRAM))


def test_the_page_of_commands_names_every_command() -> None:
    assert {heading for heading in tables(COMMANDS) if heading.startswith("pairlog ")} == set(CALLS)


@pytest.mark.parametrize("call", CALLS)
def test_a_command_has_the_options_and_defaults_that_the_reference_says(call: str) -> None:
    said = [(named(row[0]), row[1].strip("`")) for row in tables(COMMANDS)[call][0]]
    options = [each for each in CALLS[call].params if not isinstance(each, TyperArgument)]
    assert said == [(each.opts, "required" if each.required else shown(each.default)) for each in options]


def shown(default: object) -> str:
    if isinstance(default, float):
        return f"{default:g}"
    return "" if default is None or default is False else str(default)


def shape(value: object) -> object:
    """What a document consists of: names, kinds of values, and the shape of the first of many."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value[:1]] if isinstance(value, list) else type(value).__name__


def test_the_documents_of_json_have_the_shape_that_the_reference_shows(
    simulate: Callable[..., Simulator],
    experiment_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAIRLOG_STORE", raising=False)
    for name, value in environment(simulate()).items():
        monkeypatch.setenv(name, value)
    file = str(experiment_file())
    assert run(["run", file, "--interval", "0.02"]) == 0
    capsys.readouterr()
    found = []
    for call in (["plan", file], ["status"], ["rank", "essays"]):
        assert run([*call, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert all(isinstance(warning, str) for warning in document.get("warnings", []))
        found.append(shape({**document, "warnings": []}))
    assert found == [shape({**json.loads(text), "warnings": []}) for text in blocks(COMMANDS, "json")]


def test_a_cost_has_the_fields_that_the_reference_says() -> None:
    said = re.search(r"also has\n`cost`: (.*?): whether", COMMANDS.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert said is not None
    named = re.findall(r"`(\w+)`", said[1].replace("(neither is in `usd`)", ""))
    assert named == [field.name for field in msgspec.structs.fields(Spent)]


def test_a_commit_has_the_fields_that_the_reference_says() -> None:
    said = re.search(r"A commit has (.*?);", COMMANDS.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert said is not None
    assert re.findall(r"`(\w+)`", said[1]) == [field.name for field in msgspec.structs.fields(Commit)]


SCHEMAS: dict[str, pa.Schema] = {
    **{task.TABLE: task.SCHEMA for task in tasks().values()}, "rankings": RANKINGS, "diagnostics": DIAGNOSTICS,
}  # fmt: skip


@pytest.mark.parametrize("table", SCHEMAS)
def test_a_table_has_the_columns_and_types_that_the_reference_says_in_order(table: str) -> None:
    said = [(name, row[1]) for row in tables(TABLES)[table][0] for name in named(row[0])]
    assert said == [(field.name, kind(field.type)) for field in SCHEMAS[table]]


def kind(held: pa.DataType) -> str:
    return f"{held.value_type} (dictionary)" if pa.types.is_dictionary(held) else str(held)


def test_the_ways_to_read_the_tables_work(
    simulate: Callable[..., Simulator],
    worker_for: Callable[..., Worker],
    experiment_file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    worker = worker_for(simulate())
    for more in ("", "directions: [forward, reverse]"):
        finished(worker, experiment_file(more=more))
        found = answers_of(worker, ExperimentName("essays"), RankingOptions())
        newest = store_answers(worker, ExperimentName("essays"), found)
    (tmp_path / ".pairlog").symlink_to(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    snippets = blocks(TABLES, "python")
    assert len(snippets) == 5
    said: dict[str, pd.DataFrame] = {}
    for snippet in snippets:
        exec(compile(snippet, TABLES.name, "exec"), said)
    assert len(list((tmp_path / "store" / "rankings").rglob("*.parquet"))) == 2
    alone = pd.read_parquet(tmp_path / "store" / newest.ranking, partitioning=None)
    assert said["newest"][alone.columns].reset_index(drop=True).equals(alone)


def test_the_environment_names_every_variable_that_is_read() -> None:
    said = [name for found in tables(ENVIRONMENT).values() for rows in found for name in first_names(rows)]
    assert sorted(said) == sorted(variables_read(ROOT))


def test_settings_can_be_asked_in_no_other_way() -> None:
    methods = {name for name, value in vars(Settings).items() if callable(value)}
    assert methods == {"__init__", "store", "experiments", "pace", "_seconds", *ASKED}


def test_the_architecture_names_every_operation() -> None:
    found = tables(DOCS / "architecture.md")["Operations"]
    for room, rows in zip(["", "studies", "reading", "batches", "workers"], found, strict=True):
        modules = {path.stem for path in (ROOT / "pipeline" / "operations" / room).glob("*.py")} - {"__init__"}
        assert sorted(first_names(rows)) == sorted(modules)


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_names_every_page() -> None:
    index = DOCS / "README.md"
    assert {(DOCS / link).resolve() for link in links(index)} >= set(PAGES) - {index}
