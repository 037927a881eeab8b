"""Experiments of a store as they are ranked: early, whole, together, by group."""

import json
from pathlib import Path

import pytest

from pipeline.simulator import Simulator
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile, Simulate, environment


def test_a_study_is_provisional_until_every_request_has_ended(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    file = experiment_file(more="directions: [forward, reverse]")
    assert pairlog("submit", file).code == 0
    early = pairlog("rank", "essays")
    assert early.code == 1
    assert "provisional: 0 of 30 requests have ended" in early.err
    assert early.last_line == "no ranking: nothing is judged yet: run `pairlog resume essays`"
    assert json.loads(pairlog("rank", "essays", "--json").out)["open"] == 30
    assert pairlog("report", "essays").code == 1
    assert "So far, there is no ranking" in Path("report.html").read_text(encoding="utf-8")
    assert pairlog("resume", "--interval", "0").code == 0
    called = pairlog("rank", "essays", "--json", "--length", "--by", "sample")
    document = json.loads(called.out)
    assert document["open"] == 0
    assert len(document["contestants"]) == 6
    assert "provisional" not in called.err
    assert pairlog("report", "essays", "--out", tmp_path / "page.html").code == 0
    assert "<b>Provisional.</b>" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_sample_that_no_pair_names_is_missed(pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile):
    file = experiment_file(more="pairs: {design: random, count: 2, seed: 1}")
    assert pairlog("run", file, "--interval", "0").code == 0
    called = pairlog("rank", "essays")
    assert called.code == 1
    assert called.last_line.startswith(("left: no readable comparison names", "no ranking: the comparisons fall"))


def test_experiments_over_the_same_samples_are_ranked_together(
    pairlog: Pairlog, simulate: Simulate, experiment_file: ExperimentFile, monkeypatch: pytest.MonkeyPatch
):
    for variable, value in environment(simulate(tie_rate=0.3)).items():
        monkeypatch.setenv(variable, value)
    more = "ties: true\npairs: {design: random, count: COUNT, seed: 1}"
    assert pairlog("run", experiment_file(samples=8, more=more.replace("COUNT", "3")), "--interval", "0").code == 0
    alone = pairlog("rank", "essays")
    assert alone.code == 1
    assert "and `pairlog rank ONE OTHER` takes both" in alone.last_line
    file = experiment_file(name="other", samples=8, more=more.replace("COUNT", "22").replace("seed: 1", "seed: 2"))
    assert pairlog("run", file, "--interval", "0").code == 0
    both = pairlog("rank", "essays", "other", "--json")
    assert both.code == 0
    document = json.loads(both.out)
    assert (document["experiment"], document["comparisons"]) == ("essays + other", 25)
    assert len(document["contestants"]) == 8
    assert sum(each["ties"] for each in document["contestants"])
    for name in ("essays", "other"):
        assert pairlog("results", name, "--out", f"{name}.csv").code == 0
    first, second = (Path(f"{name}.csv").read_text(encoding="utf-8") for name in ("essays", "other"))
    Path("both.csv").write_text(first + second.partition("\n")[2], encoding="utf-8")
    imported = json.loads(pairlog("rank", "--from", "both.csv", "--json").out)
    assert imported["contestants"] == document["contestants"]


def test_an_id_that_stands_for_another_text_elsewhere_is_not_ranked_with_it(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    assert pairlog("submit", experiment_file()).code == 0
    file = experiment_file(name="other")
    samples = tmp_path / "samples.csv"
    samples.write_text(samples.read_text(encoding="utf-8").replace("number 3", "numeral 3"), encoding="utf-8")
    assert pairlog("submit", file).code == 0
    called = pairlog("rank", "essays", "other")
    assert called.code == 2
    assert (
        "essays and other cannot be ranked together: the sample 's3' does not have the same text in all" in called.err
    )


def test_groups_that_share_nobody_are_ranked_alone(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    file = experiment_file()
    rows = [f"s{number},Text {number}.,g{number % 2}" for number in range(8)]
    (tmp_path / "samples.csv").write_text("\n".join(["id,text,group", *rows]), encoding="utf-8")
    assert "note: no contestant is in two groups" in pairlog("run", file, "--interval", "0").err
    assert pairlog("rank", "essays").last_line.endswith("`--per group` ranks each group alone")
    called = pairlog("rank", "essays", "--per", "group", "--out", "groups.csv")
    assert called.code == 1
    assert "g0: 6 comparisons; first: s" in called.err
    assert "8 contestants in groups.csv" in called.err
    assert len(Path("groups.csv").read_text(encoding="utf-8").splitlines()) == 9


def test_rank_says_in_one_line_that_the_judges_have_faults_and_where_to_look(
    pairlog: Pairlog, provide: Simulate, experiment_file: ExperimentFile
) -> None:
    provide(bias=9.0)
    judges = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol]}]"
    file = experiment_file(judges=judges, more="directions: [forward, reverse]", samples=8)
    assert pairlog("run", file, "--interval", "0").code == 0
    for call in (["rank", "essays"], ["rank", "essays", "--per", "judge"]):
        (line,) = [line for line in pairlog(*call).err.splitlines() if line.startswith("judges: ")]
        assert "openai/gpt-6-luna favours the first position" in line
        assert "(the first of 2 judges with a fault); `pairlog report essays` shows" in line


def test_the_rows_that_results_wrote_are_ranked_alike_from_csv_and_parquet(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path: Path
) -> None:
    assert pairlog("run", experiment_file(more="directions: [forward, reverse]"), "--interval", "0").code == 0
    found = []
    for kind in ("csv", "parquet"):
        assert pairlog("results", "essays", "--out", tmp_path / f"rows.{kind}").code == 0
        found.append(json.loads(pairlog("rank", "--from", tmp_path / f"rows.{kind}", "--json").out))
    assert found[0] == found[1]
    assert found[0]["contestants"] == json.loads(pairlog("rank", "essays", "--json").out)["contestants"]


def test_the_page_of_a_study_says_what_the_judges_were_asked(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile, tmp_path
):
    criterion = "criterion: {name: wit, description: The funnier one.}"
    assert pairlog("run", experiment_file(more=criterion), "--interval", "0").code == 0
    assert pairlog("report", "essays", "--out", tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<th scope="row">criterion</th><td>wit (The funnier one.)</td>' in page
    assert '<th scope="row">template</th><td>default</td>' in page
