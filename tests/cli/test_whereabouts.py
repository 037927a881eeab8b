"""Where a study goes if no store is named: told before, and never a second time to another folder unasked."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile


@pytest.fixture
def elsewhere(pairlog: Pairlog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Go to another folder below the first one."""

    def go(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(folder)
        return folder

    return go


def test_a_new_store_is_announced_once(pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile) -> None:
    file = experiment_file()
    here = file.parent / ".pairlog"
    assert f"`pairlog submit` would make a new store in {here}\n" in pairlog("plan", file).err
    assert f"this makes a new store in {here}\n" in pairlog("submit", file).err
    assert "new store" not in pairlog("plan", file).err + pairlog("submit", file).err


def test_a_store_that_was_named_is_not_announced(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = experiment_file()
    assert "new store" not in pairlog("plan", file, "--store", "mine").err
    monkeypatch.setenv("PAIRLOG_STORE", "mine")
    assert "new store" not in pairlog("submit", file).err


@pytest.mark.parametrize("command", ["plan", "submit", "run"])
@pytest.mark.parametrize("folder", ["below", "below/further"])
def test_a_file_that_was_submitted_elsewhere_is_refused_before_anything_is_written(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    elsewhere: Callable[[str], Path],
    command: str,
    folder: str,
) -> None:
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    there = elsewhere(folder)
    called = pairlog(command, file)
    assert (called.code, list(there.iterdir())) == (2, [])
    first = file.parent / ".pairlog"
    assert f"experiment 'essays' is in {first} already" in called.err
    assert f"give --store {first} to go on with it, or --store .pairlog to begin anew here" in called.err
    assert len(simulator.ledger.batches) == 1


def test_the_store_above_the_working_directory_is_found_for_a_file_beside_it(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    elsewhere: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    there = elsewhere("below")
    for name in ("essays.yaml", "samples.csv"):
        (tmp_path / name).rename(there / name)
    called = pairlog("submit", "essays.yaml")
    assert (called.code, f"experiment 'essays' is in {tmp_path}/.pairlog already" in called.err) == (2, True)


@pytest.mark.parametrize(("more", "is_told"), [("", True), ("ties: true\n", False)])
def test_whoever_copied_a_study_into_a_folder_beside_is_told_that_it_is_paid_for_again(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    elsewhere: Callable[[str], Path],
    more: str,
    is_told: bool,
) -> None:
    file = experiment_file()
    for folder in (elsewhere("other"), elsewhere("one")):
        shutil.copy(file, folder)
        shutil.copy(file.parent / "samples.csv", folder)
    assert pairlog("submit", file.name).code == 0
    copied = elsewhere("other") / file.name
    copied.write_text(copied.read_text(encoding="utf-8") + more, encoding="utf-8")
    store = file.parent / "one" / ".pairlog"
    words = f"the same study is in {store}, and is paid for again here; --store {store} goes on with it"
    for command in ("plan", "submit"):
        called = pairlog(command, file.name)
        assert (called.code, words in called.err) == (0, is_told)


def test_both_ways_that_the_refusal_names_work(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, elsewhere: Callable[[str], Path]
) -> None:
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    there = elsewhere("below")
    assert pairlog("submit", file, "--store", file.parent / ".pairlog").code == 0
    assert list(there.iterdir()) == []
    assert pairlog("submit", file, "--store", ".pairlog").code == 0
    assert (there / ".pairlog").is_dir()
    assert pairlog("submit", file).code == 0


def test_a_store_near_by_that_knows_other_experiments_only_stops_nobody(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, elsewhere: Callable[[str], Path]
) -> None:
    assert pairlog("submit", experiment_file()).code == 0
    elsewhere("below")
    assert pairlog("submit", experiment_file(name="others")).code == 0


def test_whoever_looks_into_the_wrong_folder_is_told_of_the_store_near_by(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, elsewhere: Callable[[str], Path]
) -> None:
    file = experiment_file()
    assert pairlog("submit", file).code == 0
    store = file.parent / ".pairlog"
    assert f"--store {store} names one near by" in pairlog("status", "--store", file.parent).err
    elsewhere("below")
    for command in ("status", "resume", "audit"):
        called = pairlog(command)
        assert called.code == 0
        assert called.last_line.endswith(f"below/.pairlog (--store {store} names one near by)")


def test_an_audit_of_nothing_does_not_say_that_nothing_is_broken(pairlog: Pairlog, tmp_path: Path) -> None:
    called = pairlog("audit")
    nothing = f"there is nothing to check in file://{tmp_path}/.pairlog (--store or PAIRLOG_STORE names another store)"
    assert (called.code, called.last_line) == (0, nothing)
