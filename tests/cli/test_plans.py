"""What an experiment file would ask for, told or refused before anything is paid for."""

import json
import re
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile


def test_plan_counts_and_touches_nothing(pairlog: Pairlog, experiment_file: ExperimentFile, tmp_path: Path) -> None:
    file = experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 4}")
    before = sorted(tmp_path.rglob("*"))
    called = pairlog("plan", file, "--json")
    found = json.loads(called.out)
    assert (called.code, found["requests"], found["batches"], found["pairs"]) == (0, 30, 8, 15)
    assert pairlog("plan", file).code == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_plan_says_what_is_new_what_stays_and_what_would_change(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    two = "[{provider: openai, model: gpt-6-luna, reasoning: [none, low]}]"
    assert pairlog("submit", experiment_file(judges=two)).code == 0
    other = experiment_file(judges="[{provider: openai, model: gpt-6-luna, reasoning: [low, medium]}]")
    planned = pairlog("plan", other)
    assert (planned.code, planned.out) == (0, "")
    said = " ".join(planned.err.split())
    assert "15 of these requests are new" in said
    assert re.findall(r"new: (\S+)", said) == ["essays--default--openai--gpt-6-luna--medium--forward"]
    assert "1 run stays in the store although no longer named in this file: essays--default" in said
    changed = pairlog("plan", experiment_file(judges=two, samples=7))
    assert changed.code == 2
    assert "take a new name" in " ".join(changed.err.split())


@pytest.mark.parametrize(
    ("rows", "more", "words"),
    [
        ("a,one\nb,other\nc,three\n", "", "would change (samples: text of 'b' changed; pairs); take a new name\n"),
        (
            "a,one\nb,two\nc,three\nd,4\ne,5\n",
            "",
            "(samples: 'd' and 1 more were added; pairs; requests: 3 -> 10); take a new name; further",
        ),
        ("a,one\nc,three\n", "", "(samples: 'b' was removed; pairs; "),
        ("b,two\na,one\nc,three\n", "", "(samples: their order changed; pairs)"),
        (
            "a,one\nb,two\nc,three\n",
            "pairs: {design: random, count: 2}",
            "; further pairs go under another name with another pairs.seed, and `pairlog rank few OTHER` ranks both",
        ),
    ],
)
def test_a_change_is_refused_with_the_samples_it_is_about_and_how_pairs_are_added(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path, rows: str, more: str, words: str
) -> None:
    file = "name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n"
    (tmp_path / "s.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    (tmp_path / "e.yaml").write_text(file)
    assert pairlog("submit", "e.yaml").code == 0
    (tmp_path / "s.csv").write_text(f"id,text\n{rows}")
    (tmp_path / "e.yaml").write_text(file + more)
    for command in ("plan", "submit"):
        called = pairlog(command, "e.yaml")
        assert called.code == 2
        assert words in called.err


def test_plan_says_how_many_blank_rows_were_left_out(pairlog: Pairlog, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,text\na,one\n,\nb,two\n,\n")
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    called = pairlog("plan", tmp_path / "e.yaml")
    assert called.code == 0
    assert "2 blank rows left out" in called.err
    assert "2 samples, 1 pair, 1 request" in called.err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "judges: [{provider: opnai, model: m}]",
            "line 3: judges[0].provider: provider 'opnai' is unknown; did you mean",
        ),
        (
            "judges:\n  - {provider: openai, model: a}\n  - {provider: bedrock, model: b, mode: live}",
            "line 5: judges[1]: bedrock has no mode live",
        ),
        ("judges: [{provider: openai, model: gpt-6-luna, reasoning: huge}]", "line 3: judges[0]: "),
        ("pairs: {design: random, count: 9}", "line 3: pairs.count is 9, but only 3 pairs exist"),
        ("directions: both", "line 3: directions is 'both'; it must be a list: [forward], [reverse] or [forward, "),
        ("pairs: {design: groups}", "line 3: pairs.design is groups, but no sample has a group"),
        (
            "criterion: coherence",
            "line 3: criterion: 'coherence' is not a built-in criterion; built in are overall_quality",
        ),
        ("templates: [default, none]", "line 3: templates: 'none' is not a built-in template"),
        ("templates: [defalt]", "'defalt' is not a built-in template; did you mean default? give a path"),
        ("templates: [gone.txt]", "line 3: templates[0]: "),
        ("samples: gone.csv", "line 3: samples: "),
        ("judges: [gpt-6-luna]", "line 3: judges[0] is 'gpt-6-luna'; it must be a mapping, such as {provider: openai,"),
        ("judges:\n\t- {provider: openai, model: m}", "line 4: a tab stands where YAML takes spaces only; use spaces"),
    ],
)
def test_mistakes_that_are_seen_late_name_their_line_and_field_too(
    pairlog: Pairlog, tmp_path: Path, lines: str, words: str
) -> None:
    (tmp_path / "s.csv").write_text("id,text\na,one\nb,two\nc,three\n")
    plain = {"samples": "samples: s.csv", "judges": "judges: [{provider: openai, model: m}]"}
    others = [line for key, line in plain.items() if not lines.startswith(key)]
    head = ["name: few", others[0]]
    (tmp_path / "e.yaml").write_text("\n".join([*head, lines, *others[1:]]) + "\n")
    called = pairlog("plan", "e.yaml")
    assert (called.code, called.err[: len("error: e.yaml, ")]) == (2, "error: e.yaml, ")
    assert words in called.err


@pytest.mark.parametrize(
    ("model", "is_told"), [("gpt-6-lunaaa", True), ("gpt-6-luna", False), ("gpt-5-2026-01-01", False)]
)
def test_a_model_that_is_spelled_like_a_known_one_is_noted_and_not_refused(
    pairlog: Pairlog,
    simulator: Simulator,
    experiment_file: ExperimentFile,
    model: str,
    is_told: bool,
) -> None:
    words = "note: gpt-6-lunaaa is not a model of openai that is known here; did you mean gpt-6-luna?"
    for command in ("plan", "submit"):
        called = pairlog(command, experiment_file(judges=f"[{{provider: openai, model: {model}}}]"))
        assert called.code == 0
        assert (words in called.err) is is_told


SELVES = "only `rank --by sample` counts such a pair"


@pytest.mark.parametrize(
    ("rows", "pairs", "words"),
    [
        (
            "id,text,contestant\na,1,m\nb,2,m\nc,3,n\nd,4,n\n",
            2,
            f"2 of 6 pairs compare a contestant with itself, and {SELVES}",
        ),
        ("id,text,contestant\na,1,m\nb,2,m\nc,3,n\nd,4,n\n", 2, "give the samples a column `group`"),
        ("id,text,contestant\na,1,m\nb,2,m\nc,3,m\n", 3, "all 3 pairs compare a contestant with itself"),
        ("id,text,contestant,group\na,1,m,x\nb,2,m,x\nc,3,n,x\n", 1, "at most one sample in a group"),
        ("id,text,contestant,group\na,1,m,x\nb,2,n,x\nc,3,m,y\nd,4,n,y\n", 0, None),
        ("id,text\na,1\nb,2\n", 0, None),
    ],
)
def test_pairs_of_a_contestant_with_itself_are_told_before_they_are_paid_for(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path, rows: str, pairs: int, words: str | None
) -> None:
    (tmp_path / "s.csv").write_text(rows)
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    assert json.loads(pairlog("plan", "e.yaml", "--json").out)["self_pairs"] == pairs
    for command in ("plan", "submit"):
        said = pairlog(command, "e.yaml").err
        assert words in said if words else "with itself" not in said


def test_plan_counts_duplicate_rows(pairlog: Pairlog, experiment_file: ExperimentFile) -> None:
    file = experiment_file()
    with (file.parent / "samples.csv").open("a", encoding="utf-8") as samples:
        samples.write("s0,The text that has number 0.\n")
    called = pairlog("plan", file)
    assert "1 duplicate row left out" in called.err
    assert "6 samples, 15 pairs" in called.err


@pytest.mark.parametrize(
    ("samples", "more", "message"),
    [
        ("id,text\n", "", "s.csv holds no sample"),
        ("id,text\na,one\n", "", "s.csv holds one sample, and a pair needs two"),
        ("id,text,group\na,one,x\nb,two,y\n", "pairs: {design: groups}", "no group has two samples"),
        ("id,text\n", "task: generation", "s.csv holds no sample"),
    ],
)
def test_samples_that_make_no_request_are_refused_so_that_the_name_stays_free(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path, samples: str, more: str, message: str
) -> None:
    (tmp_path / "s.csv").write_text(samples)
    judges = "judges: [{provider: openai, model: gpt-6-luna}]"
    (tmp_path / "e.yaml").write_text(f"name: few\nsamples: s.csv\n{judges}\n{more}\n")
    called = pairlog("submit", tmp_path / "e.yaml")
    assert called.code == 2
    assert f"there is nothing to ask: {message}" in called.err
    assert not (tmp_path / ".pairlog").exists()


APART = "pairs: {design: random, count: 3, seed: 1}"


@pytest.mark.parametrize("command", ["plan", "submit", "run"])
def test_pairs_that_fall_apart_are_told_of_before_anything_is_paid_for(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, command
):
    called = pairlog(command, experiment_file(samples=8, more=APART))
    assert called.code == 0
    assert "warning: the 3 pairs fall into 2 parts that nothing links and 3 of 8 samples are in no pair" in called.err
    assert "a larger pairs.count helps, 21 as a rule" in called.err
    enough = pairlog(command, experiment_file(name="more", samples=8, more=APART.replace("3", "21")))
    assert "warning" not in enough.err


def test_plan_counts_parts_and_unpaired_samples(pairlog: Pairlog, experiment_file: ExperimentFile):
    document = json.loads(pairlog("plan", experiment_file(samples=8, more=APART), "--json").out)
    assert (document["parts"], document["unpaired"]) == (2, 3)
    document = json.loads(pairlog("plan", experiment_file(), "--json").out)
    assert (document["parts"], document["unpaired"]) == (1, 0)


def test_a_column_that_looks_like_a_slip_of_the_pen_is_told_of_before_anything_is_paid_for(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path
) -> None:
    (tmp_path / "s.csv").write_text("id,text,groups,Contestant,content,score\na,one,1,x,c,5\nb,two,2,y,c,6\n")
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    for command in ("plan", "submit"):
        said = pairlog(command, "e.yaml").err
        assert "note: the column 'groups' of the samples means nothing here; did you mean group?" in said
        assert "note: the column 'Contestant' of the samples means nothing here; did you mean contestant?" in said
        assert said.count("means nothing here") == 2


ANSWERS = "id,text,model,prompt\na,1,m,x\nb,2,n,x\nc,3,m,y\nd,4,n,y\n"
NO_CONTESTANT = "note: the column 'model' of the samples means nothing here, and every sample is ranked by itself; "
NO_GROUP = "note: the column 'prompt' of the samples means nothing here, and samples are compared whatever it says; "


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ANSWERS, [NO_CONTESTANT, NO_GROUP]),
        (ANSWERS.replace("prompt", "group"), [NO_CONTESTANT]),
        (ANSWERS.replace("model", "contestant"), [NO_GROUP]),
        (ANSWERS.replace("model", "contestant").replace("prompt", "group"), []),
        ("id,text,model,prompt\na,1,m,x\nb,2,n,y\n", []),
        ("id,text,model,prompt\na,1,m,x\nb,2,m,x\n", []),
    ],
    ids=["neither", "no contestant", "no group", "both", "nothing is shared", "all the same"],
)
def test_columns_that_others_call_so_are_told_of_before_anything_is_paid_for(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path, rows: str, told: list[str]
) -> None:
    (tmp_path / "s.csv").write_text(rows)
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    for command in ("plan", "submit"):
        said = pairlog(command, "e.yaml").err
        assert [words for words in (NO_CONTESTANT, NO_GROUP) if words in said] == told
        assert said.count("means nothing here") == len(told)


def test_samples_of_which_only_some_have_a_group_are_refused_by_the_id_to_look_for(
    pairlog: Pairlog, tmp_path: Path
) -> None:
    (tmp_path / "s.csv").write_text("id,text,group\na,one,x\nb,two,\nc,three,x\n")
    (tmp_path / "e.yaml").write_text("name: few\nsamples: s.csv\njudges: [{provider: openai, model: gpt-6-luna}]\n")
    called = pairlog("plan", "e.yaml")
    assert called.code == 2
    assert "e.yaml, line 2: samples: 1 of 3 have no group while others have one (the first is 'b'); give" in called.err
