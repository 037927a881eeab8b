"""Studies as a notebook opens them: the same answers as the command line's, and nothing written or sent."""

import csv
import html
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pipeline
from pipeline.cli import answering
from pipeline.errors import ConfigError, UnrankableError
from pipeline.notebook import Options, Study, StudyRanking, open_study, studies
from pipeline.ranking import RankingOptions
from pipeline.simulator import Simulator
from pipeline.tasks import grading, pairwise
from tests.cli.conftest import Pairlog
from tests.conftest import ExperimentFile

TWO = "[{provider: openai, model: [gpt-6-luna, gpt-6-sol]}]"
BOTH = "directions: [forward, reverse]"
PLACE = "(store=… or PAIRLOG_STORE names another store)"


@pytest.fixture
def grades(essays: Study) -> Study:
    return open_study("grades")


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rows_are_those_that_results_writes(essays: Study, pairlog: Pairlog) -> None:
    assert pairlog("results", "essays", "--out", "rows.parquet", "--with-samples").code == 0
    written = pq.read_table("rows.parquet")
    assert essays.rows(with_samples=True).equals(written)
    assert essays.rows().equals(written.drop_columns(["first_text", "second_text"]))
    assert essays.rows(["outcome", "first_id"]).equals(written.select(["outcome", "first_id"]))
    assert essays.rows("outcome").equals(written.select(["outcome"]))
    assert essays.rows(["first_text", "model"], with_samples=True).equals(written.select(["first_text", "model"]))


def test_counts_and_status_are_those_of_the_command(essays: Study, pairlog: Pairlog) -> None:
    (told,) = json.loads(pairlog("status", "essays", "--json").out)["experiments"]
    assert essays.counts == told["counts"]
    assert essays.counts["planned"] == essays.counts["ok"] == 60
    runs = [{**run, **run["counts"]} for run in told["runs"]]
    assert essays.status().to_pylist() == [
        {name: value for name, value in run.items() if name not in {"counts", "batches"}} for run in runs
    ]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({}, []),
        ({"per": "judge"}, ["--per", "judge"]),
        ({"per": "panel"}, ["--per", "panel"]),
        ({"method": "elo", "seed": 3}, ["--method", "elo", "--seed", "3"]),
        (
            {"by": "sample", "position": True, "length": True, "confidence": 0.9, "regularisation": 1.0},
            ["--by", "sample", "--position", "--length", "--confidence", "0.9", "--regularisation", "1"],
        ),
        ({"ties": "davidson", "cluster": "row"}, ["--ties", "davidson", "--cluster", "row"]),
    ],
)
def test_a_ranking_is_the_one_that_rank_prints(essays: Study, pairlog: Pairlog, options, arguments) -> None:
    told = json.loads(pairlog("rank", "essays", "--json", *arguments).out)
    assert as_document(essays, essays.ranking(**options)) == told


def as_document(study: Study, found: StudyRanking) -> object:
    return msgspec.to_builtins(
        {
            "experiment": study.name,
            "contestants": list(found.standings),
            "comparisons": found.comparisons,
            "open": found.open,
            "reliability": found.reliability,
            "separation": found.separation,
            "effects": list(found.effects),
            "unranked": list(found.unranked),
            "warnings": list(found.warnings),
            "parts": found.table.filter(pc.field("dimension") != "all").to_pylist(),
        }
    )


def test_the_options_are_those_of_rank_with_its_defaults() -> None:
    others = {"names", "source", "as_json", "out", "store"}
    ranks = {name: each.default for name, each in inspect.signature(answering.rank).parameters.items()}
    asked = {name: value for name, value in ranks.items() if name not in others}
    assert {*Options.__annotations__, "per"} == set(asked)
    defaults = {**msgspec.structs.asdict(RankingOptions()), "length": False, "per": None}
    assert {name: defaults[name] for name in asked} == asked


def test_diagnostics_and_report_are_those_that_report_keeps(essays: Study, pairlog: Pairlog, tmp_path: Path) -> None:
    assert pairlog("report", "essays", "--out", "page.html").code == 0
    (kept,) = (tmp_path / ".pairlog/diagnostics").rglob("*.parquet")
    assert essays.diagnostics().drop_columns("experiment").equals(pq.read_table(kept, partitioning=None))
    (ranked,) = (tmp_path / ".pairlog/rankings").rglob("*.parquet")
    whole = pq.read_table(ranked, partitioning=None).filter(pc.field("dimension") == "all")
    assert essays.ranking().table.drop_columns("experiment").equals(whole)
    assert essays.report().html == Path("page.html").read_text(encoding="utf-8")
    assert pairlog("report", "essays", "--position", "--out", "page.html").code == 0
    assert essays.report(position=True).html == Path("page.html").read_text(encoding="utf-8")


def test_what_a_study_has_cost_is_what_status_tells(essays: Study, pairlog: Pairlog) -> None:
    (told,) = json.loads(pairlog("status", "essays", "--cost", "--json").out)["experiments"]
    cost = essays.cost()
    assert (float(cost.usd), cost.input_tokens) == (told["cost"]["usd"], told["cost"]["input_tokens"])
    by_run = cost.table.to_pylist()
    assert [(row["run_id"], row["usd"]) for row in by_run] == [
        (run["run_id"], run["cost"]["usd"]) for run in told["runs"]
    ]
    assert sum(row["output_tokens"] for row in by_run) == told["cost"]["output_tokens"]
    assert f"\n{cost!r}\n" in pairlog("status", "essays", "--cost").err


def test_what_a_study_of_an_unknown_price_has_cost_is_not_known(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    file = experiment_file(name="unpriced", judges="[{provider: openai, model: of-next-year}]")
    assert pairlog("run", file, "--interval", 0).code == 0
    cost = open_study("unpriced").cost()
    assert repr(cost).startswith("cost so far: not known; ")
    assert cost.table["usd"].to_pylist() == [None]


def test_a_report_shows_itself_in_a_frame_and_can_be_saved(essays: Study, tmp_path: Path) -> None:
    page = essays.report()
    frame = page._repr_html_()
    start, end = '<iframe srcdoc="', '" sandbox="" style="width:100%;height:720px;border:0"></iframe>'
    assert (frame[: len(start)], frame[-len(end) :]) == (start, end)
    shown = frame[len(start) : -len(end)]
    assert not set(shown) & set('<>"')
    assert html.unescape(shown) == page.html
    assert page.save("kept/page.html") == tmp_path / "kept/page.html"
    assert Path("kept/page.html").read_text(encoding="utf-8") == page.html
    assert repr(page) == f"Page of {len(page.html):,} characters; .save('report.html') keeps it"
    with pytest.raises(ConfigError, match=r"kept is a folder; give the path of a file"):
        page.save("kept")
    for name in ("page.pdf", "page"):
        with pytest.raises(ConfigError, match=rf"{name} cannot be written: the page is HTML; use \.html or \.htm$"):
            page.save(name)
        assert not Path(name).exists()
    with pytest.raises(ConfigError, match=r"page\.html/page\.html cannot be written \(.*\); give the path of a file"):
        page.save("kept/page.html/page.html")


def test_a_request_is_explained_down_to_its_raw_line(essays: Study, pairlog: Pairlog) -> None:
    request_id = essays.rows("request_id")["request_id"][0].as_py()
    told = json.loads(pairlog("explain", request_id, "--json").out)
    assert msgspec.to_builtins(essays.explain(request_id)) == told
    with pytest.raises(ConfigError, match="has a request 'nothing'"):
        essays.explain("nothing")


def test_a_study_shows_its_name_counts_and_judges(essays: Study, tmp_path: Path) -> None:
    assert repr(essays) == (
        f"Study essays in file://{tmp_path}/.pairlog\n60 requests: 60 ok\njudged by openai/gpt-6-luna, openai/gpt-6-sol"
    )
    assert (essays.name, essays.judges) == ("essays", ["openai/gpt-6-luna", "openai/gpt-6-sol"])
    shown = essays._repr_html_()
    assert "<b>essays</b><p>60 requests: 60 ok; judged by openai/gpt-6-luna, openai/gpt-6-sol</p>" in shown
    assert shown.count("<td>15</td><td>15</td>") == 4


def test_a_ranking_shows_its_verdict_scores_and_notes(essays: Study, pairlog: Pairlog) -> None:
    found = essays.ranking(regularisation=1.0)
    first, *rest, last = repr(found).splitlines()
    assert last in pairlog("rank", "essays", "--regularisation", "1.0").err, "who is hard to trust is said of both"
    assert last.startswith("judges: openai/gpt-6-sol kept its winner in ")
    assert found.notes[-1] == last
    assert found.standings[0].contestant in first
    assert [line.split()[:3] for line in rest] == [
        [str(each.rank), each.contestant, f"{each.score:.3f}"] for each in found.standings
    ]
    shown = found._repr_html_()
    assert shown.startswith(f"<div><p><b>{first}</b></p><svg ")
    assert shown.count("<circle ") == 6
    assert f"<p>{last}</p>" in shown


def test_the_parts_of_a_ranking_are_shown_with_it(essays: Study, pairlog: Pairlog) -> None:
    found = essays.ranking(per="judge", regularisation=1.0)
    firsts = [line for line in repr(found).splitlines() if "; first: " in line]
    assert [line.partition(":")[0] for line in firsts] == ["openai/gpt-6-luna", "openai/gpt-6-sol"]
    assert all(f"<p>{line}</p>" in found._repr_html_() for line in firsts)
    told = pairlog("rank", "essays", "--per", "judge", "--regularisation", "1.0").err
    assert all(line in told for line in firsts)
    assert essays.ranking(regularisation=1.0).parts == ()


def test_names_that_look_like_markup_are_shown_as_they_are(
    pairlog: Pairlog, simulator: Simulator, tmp_path: Path
) -> None:
    with (tmp_path / "s.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *([f"<i>{number}</i>", f"Text {number}."] for number in range(4))])
    judges = "[{provider: openai, model: 'm<script>'}]"
    (tmp_path / "e.yaml").write_text(f"name: odd\nsamples: s.csv\ndirections: [forward, reverse]\njudges: {judges}\n")
    assert pairlog("run", "e.yaml", "--interval", "0").code == 0
    study = open_study("odd")
    assert "judged by openai/m&lt;script&gt;" in study._repr_html_()
    assert "&lt;i&gt;" in study.ranking()._repr_html_()
    assert not any(
        "<i>" in shown or "<script" in shown for shown in (study._repr_html_(), study.ranking()._repr_html_())
    )


def test_an_unfinished_study_tells_what_is_there_and_goes_on(
    pairlog: Pairlog, simulator: Simulator, experiment_file: ExperimentFile
) -> None:
    assert pairlog("submit", experiment_file(more=BOTH)).code == 0
    study = open_study("essays")
    assert (study.counts["open"], study.rows().num_rows, study.rows().schema) == (30, 0, pairwise.SCHEMA)
    assert repr(study).splitlines()[1] == "30 requests: 30 open"
    with pytest.raises(UnrankableError, match=r"there is no ranking of essays: .*; 30 requests are open$"):
        study.ranking()
    assert study.diagnostics().num_rows == 0
    assert "So far, there is no ranking" in study.report().html
    assert pairlog("resume", "--interval", "0").code == 0
    assert (study.counts["open"], study.rows().num_rows, study.ranking().open) == (0, 30, 0)
    assert pairlog("submit", experiment_file(judges=TWO, more=BOTH)).code == 0
    assert (study.counts["open"], study.status().num_rows) == (30, 4)
    assert study.ranking().notes[0] == "provisional: 30 requests are open"
    assert repr(study.ranking()).startswith("So far, ")
    assert "<p>provisional: 30 requests are open</p>" in study.ranking()._repr_html_()


def test_a_grading_study_has_rows_and_a_report_and_says_that_nothing_was_compared(
    grades: Study, pairlog: Pairlog
) -> None:
    assert pairlog("results", "grades", "--out", "rows.parquet").code == 0
    assert grades.rows().equals(pq.read_table("rows.parquet"))
    assert grades.rows().schema.equals(grading.SCHEMA)
    assert set(grades.rows("score")["score"].to_pylist()) <= {1, 2, 3, 4, 5}
    assert pairlog("report", "grades", "--out", "page.html").code == 0
    assert grades.report().html == Path("page.html").read_text(encoding="utf-8")
    for asked in (grades.ranking, grades.diagnostics):
        with pytest.raises(UnrankableError) as raised:
            asked()
        assert str(raised.value) == "grades is a grading study and compares nothing; report() shows what it found"


def test_nothing_is_written(essays: Study, pairlog: Pairlog, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / ".pairlog/checkpoints")
    before = everything(tmp_path)
    assert studies() == ["essays", "grades"]
    request_id = essays.rows()["request_id"][0].as_py()
    assert all((essays.counts, essays.judges, repr(essays), essays._repr_html_(), essays.explain(request_id)))
    assert all((essays.status(), essays.ranking(per="judge"), essays.diagnostics(), essays.report(length=False).html))
    assert everything(tmp_path) == before
    assert pairlog("rank", "essays").code == 0
    assert everything(tmp_path) != before, "who may write would have kept checkpoints"


def test_the_store_is_named_in_the_call_or_by_the_environment(
    essays: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = tmp_path / ".pairlog"
    for named in (store, str(store), f"file://{store}"):
        assert studies(named) == ["essays", "grades"]
        assert open_study("essays", store=named).counts == essays.counts
    monkeypatch.chdir(tmp_path.parent)
    assert essays.counts["ok"] == 60
    monkeypatch.setenv("PAIRLOG_STORE", str(store))
    assert studies() == ["essays", "grades"]
    assert repr(open_study("essays")) == repr(essays)


def test_unknown_names_are_refused_with_a_remedy(essays: Study, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/.pairlog"
    nowhere = f"file://{tmp_path}/nix {PLACE}"
    cases: list[tuple[Callable[[], object], str]] = [
        (
            lambda: open_study("essay"),
            f"there is no experiment 'essay' in {store} {PLACE}; did you mean essays? it holds essays, grades",
        ),
        (lambda: open_study("essays", "nix"), f"there is no experiment 'essays' in {nowhere}; it holds none"),
        (lambda: studies("nix"), f"there are no experiments in {nowhere}"),
        (lambda: studies("ftp://nix"), "store ftp://nix: unknown kind 'ftp'; use a path, file://, s3:// or gs://"),
        (lambda: essays.rows(["outcom"]), "the rows of essays have no column 'outcom'; did you mean outcome?"),
        (lambda: essays.ranking(per="template"), "no ranking per template: there is only one template in essays"),
        (
            lambda: essays.ranking(method="elos"),  # type: ignore[arg-type] # that is the point
            "a ranking with method='elos' cannot be made; give 'bradley-terry' or 'elo' or 'win-rate'",
        ),
        (
            lambda: essays.ranking(per="judges"),  # type: ignore[arg-type] # that is the point
            (
                "a ranking with per='judges' cannot be made; "
                "give 'judge' or 'template' or 'group' or 'criterion' or 'panel' or None"
            ),
        ),
        (
            lambda: essays.report(metod="elo"),  # type: ignore[call-arg] # that is the point
            "a ranking has no option metod; did you mean method?",
        ),
        (
            lambda: essays.ranking(seed="x"),  # type: ignore[arg-type] # that is the point
            "a ranking with seed='x' cannot be made; give a whole number",
        ),
        (
            lambda: essays.ranking(regularisation="x"),  # type: ignore[arg-type] # that is the point
            "a ranking with regularisation='x' cannot be made; give a number or None",
        ),
        (lambda: essays.ranking(confidence=2.0), "confidence is 2.0; give a number of at least 0.5 and below 1"),
    ]
    for asked, words in cases:
        with pytest.raises(ConfigError) as raised:
            asked()
        assert str(raised.value) == words
    assert not (tmp_path / "nix").exists()


def test_the_package_itself_has_what_one_begins_with_and_loads_it_only_when_asked() -> None:
    told = """if True:
        import sys, pipeline
        heavy = {"pyarrow", "pandas", "pipeline.notebook"} & set(sys.modules)
        print(pipeline.__version__, sorted(heavy), dir(pipeline))
        from pipeline import open_study, studies
        import pipeline.notebook
        print(open_study is pipeline.notebook.open_study, studies is pipeline.notebook.studies)
    """
    called = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    first, second = called.stdout.splitlines()
    assert first.startswith(f"{version('pairlog')} [] [")
    assert set(pipeline.__all__) <= set(dir(pipeline))
    assert second == "True True"
    with pytest.raises(AttributeError, match="module 'pipeline' has no attribute 'opened'"):
        _ = pipeline.opened
