"""Wrong calls, stores and environments: named before anything is written, and no key is ever shown."""

from pathlib import Path

import pytest

from pipeline.simulator import Simulator, parse_faults
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate


@pytest.mark.parametrize("name", ["essays.yaml", "essay", "infra/essays.yml"])
def test_an_experiment_that_is_called_by_its_file_is_guessed(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, name: str
) -> None:
    assert pairlog("submit", experiment_file()).code == 0
    for command in ("rank", "resume"):
        called = pairlog(command, name)
        assert called.code == 2
        assert "did you mean essays?" in called.err


def test_an_experiment_that_is_called_by_a_file_of_another_name_is_asked_for_by_its_own(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("submit", experiment_file()).code == 0
    called = pairlog("rank", "w.yaml")
    assert called.code == 2
    assert "give the name in the file, not the file; it holds essays" in called.err


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("id,text,quality_score\n1,a,2\n", "lacks the column quality; its columns: id, text, quality_score"),
        ("essay,score\na,2\n", "lacks the column text and the column quality; its columns: essay, score"),
        ("", "lacks the column text and the column quality; its columns: none"),
        ("text,quality\na,good\n", "is not a CSV file with the columns text and quality: could not convert"),
        ("text,quality\na\n", "is not a CSV file with the columns text and quality: could not convert"),
    ],
)
def test_a_file_of_qualities_that_cannot_be_used_is_named_with_what_it_has(
    pairlog: Pairlog, tmp_path: Path, table: str, message: str
) -> None:
    (tmp_path / "essays.csv").write_text(table, encoding="utf-8")
    called = pairlog("simulate", "--qualities", "essays.csv")
    assert called.code == 2
    assert f"essays.csv {message}" in " ".join(called.err.split())


def test_a_store_copied_from_a_mistyped_address_is_a_mistake(pairlog: Pairlog, tmp_path: Path) -> None:
    called = pairlog("store", "copy", tmp_path / "nowhere", tmp_path / "copy")
    assert called.code == 2
    assert "holds no experiment" in " ".join(called.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "nosuch"], "nosuch"),
        (["resume", "nosuch"], "nosuch"),
        (["cancel", "nosuch"], "nosuch"),
        (["results", "nosuch", "--out", "x.csv"], "nosuch"),
        (["events", "nosuch"], "nosuch"),
        (["explain", "nosuch"], "nosuch"),
        (["plan", "nosuch.yaml"], "nosuch.yaml"),
        (["submit", "nosuch.yaml"], "nosuch.yaml"),
        (["plan", "."], "is a folder"),
        (["adopt", "nosuch", "s000-1", "r"], "nosuch"),
        (["status", "--as-of", "yesterday"], "yesterday"),
        (["resume", "--interval", "-1"], "interval"),
        (["frobnicate"], "frobnicate"),
        (["plan"], "FILE"),
        (["rank", "x", "--per", "judge", "--per", "group"], "--per is given 2 times, and only one value can count"),
        (["run", "x.yaml", "--most-cost", "1", "--most-cost=9"], "--most-cost is given 2 times"),
        (["rank", "x", "--per", "jugde"], "error: --per 'jugde' is not known; did you mean judge?\n"),
        (["rank", "x", "--by", "it"], "error: --by 'it' is not known; choose one of contestant, sample\n"),
        (["rank", "x", "--seed", "q"], "error: --seed 'q' is not a whole number\n"),
        (["resume", "--interval", "x"], "error: --interval 'x' is not a number\n"),
        (["resume", "--interval", "1e9"], "error: --interval: 1e+09 is not between 0 and 604800 seconds, a week\n"),
        (["run", "x.yaml", "--most-requests=-1"], "--most-requests '-1' is not a whole number of at least 0\n"),
        (["run", "x.yaml", "--most-cost", "x"], "error: --most-cost: 'x' is not an amount in USD, such as 12.50\n"),
        (["simulate", "--qualities", "nofile"], "--qualities nofile: cannot be read (No such file or directory)"),
        (["simulate", "--port", "99999"], "error: --port '99999' is not a whole number from 0 to 65535\n"),
        (["status", "--store", "ftp://user:hunter2@x/y"], "ftp"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_call_exits_2_and_writes_nothing(
    pairlog: Pairlog, tmp_path: Path, arguments: list[str], message: str
) -> None:
    called = pairlog(*arguments)
    assert called.code == 2
    assert message in called.err
    assert "Traceback" not in called.err
    assert "hunter2" not in called.err
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_one_is_named(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    file = experiment_file()
    for command in (["plan", file], ["submit", file], ["run", file], ["resume"], ["status"], ["doctor"], ["audit"]):
        called = pairlog(*command, "--store", file)
        assert called.code == 2
        assert called.last_line.endswith("is a file, not a folder; name a folder, or one that is to be made")
    called = pairlog("submit", file, "--store", "/proc/pairlog")
    assert called.code == 1
    assert "there is no" not in called.err
    assert called.last_line.endswith("the store cannot be written by this user")
    assert "cannot be written by this user" in pairlog("doctor", "--store", "/proc/pairlog").err


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OPENAI_API_KEY", None, "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "sk-canary\n", "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", '"sk-canary"', "OPENAI_API_KEY"),
        ("OPENAI_API_KEY", "sk canary", "white space"),
        ("OPENAI_BASE_URL", "http://api.example.com/v1", "https"),
        ("OPENAI_BASE_URL", "http://169.254.169.254/v1", "https"),
        ("OPENAI_BASE_URL", "https://169.254.169.254/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://me:sk-canary@example.com/v1", "password"),
        ("OPENAI_BASE_URL", "ftp://example.com", "web address"),
        ("OPENAI_BASE_URL", "https://2852039166/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://169.254.169.254./v1", "no provider"),
        ("OPENAI_BASE_URL", "https://[::ffff:169.254.169.254]/v1", "no provider"),
        ("OPENAI_BASE_URL", "https://[::1/v1", "web address"),
        ("OPENAI_BASE_URL", "https://example.com:99999/v1", "web address"),
        ("OPENAI_BASE_URL", "https://example.com/v1\n", "web address"),
        ("PAIRLOG_QUIET_SECONDS", "soon", "PAIRLOG_QUIET_SECONDS"),
        ("PAIRLOG_QUIET_SECONDS", "-1", "PAIRLOG_QUIET_SECONDS"),
        ("PAIRLOG_PAUSE_SECONDS", "nan", "PAIRLOG_PAUSE_SECONDS"),
    ],
)
def test_a_wrong_environment_exits_2_before_anything_is_written(
    pairlog: Pairlog,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: ExperimentFile,
    tmp_path: Path,
    name: str,
    value: str | None,
    message: str,
) -> None:
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    called = pairlog("run", experiment_file())
    assert called.code == 2
    assert message in called.err
    assert "canary" not in called.err
    assert not (tmp_path / ".pairlog").exists()
    assert simulator.ledger.files == []


def test_missing_keys_of_several_providers_are_named_with_one_remedy(
    pairlog: Pairlog, experiment_file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    judges = "[{provider: openai, model: gpt-6-luna}, {provider: anthropic, model: claude-haiku-5-5}]"
    called = pairlog("submit", experiment_file(judges=judges))
    assert called.code == 2
    assert called.last_line == (
        "error: OPENAI_API_KEY is not set; ANTHROPIC_API_KEY is not set; export the key of the account that is to pay "
        "(to try it without one: `pairlog simulate`)"
    )


def test_resuming_without_the_key_is_refused_before_any_write(
    pairlog: Pairlog,
    simulator: Simulator,
    monkeypatch: pytest.MonkeyPatch,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    pairlog("submit", experiment_file())
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.delenv("OPENAI_API_KEY")
    assert pairlog("resume").code == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_doctor_names_keys_but_never_their_values(
    pairlog: Pairlog, provide: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    provide()
    good = pairlog("doctor")
    assert good.code == 0
    assert "refuses a second create" in good.err
    assert "OPENAI_API_KEY is set; reached: " in good.err
    assert "ANTHROPIC_API_KEY is not set" in good.err
    provide(api_keys=("another",))
    broken = pairlog("doctor")
    assert broken.code == 1
    assert "doctor: openai: OPENAI_API_KEY is set; GET /models answered 401" in broken.err
    assert "canary" not in good.err + good.out + broken.err + broken.out


def test_no_key_is_stored_logged_or_printed_anywhere(
    pairlog: Pairlog,
    provide: Simulate,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    provide(faults=parse_faults("create.401=1,poll.500=1,download.cut=1"))
    said = ""
    for _ in range(2):
        called = pairlog("run", experiment_file(), "--interval", "0")
        said += called.out + called.err
    for command in (["status"], ["events", "essays--default--openai--gpt-6-luna--default--forward"], ["audit"]):
        called = pairlog(*command)
        said += called.out + called.err
    assert "canary" not in said
    for path in (tmp_path / ".pairlog").rglob("*"):
        assert "canary" not in str(path)
        assert path.is_dir() or b"canary" not in path.read_bytes()


@pytest.mark.parametrize("interval", ["inf", "1e12", "nan", "-1"])
def test_an_interval_that_nobody_can_wait_for_is_a_mistake(pairlog: Pairlog, interval: str) -> None:
    called = pairlog("resume", "--interval", interval)
    assert called.code == 2
    assert "is not between 0 and 604800 seconds" in " ".join(called.err.split())


def test_a_quiet_period_in_which_nothing_can_be_sent_is_a_mistake(
    pairlog: Pairlog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAIRLOG_QUIET_SECONDS", "0")
    called = pairlog("resume")
    assert called.code == 2
    assert "PAIRLOG_QUIET_SECONDS is '0'; give a number of seconds, 0.1 or more" in " ".join(called.err.split())


def test_a_pause_that_would_not_be_kept_is_a_mistake(pairlog: Pairlog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIRLOG_PAUSE_SECONDS", "7200")
    called = pairlog("resume")
    assert called.code == 2
    expected = "PAIRLOG_PAUSE_SECONDS is '7200'; give a number of seconds, 0 or more, 3600 at most"
    assert expected in " ".join(called.err.split())
