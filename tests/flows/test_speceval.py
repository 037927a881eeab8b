"""Model outputs in SpecEval's layout: imported under their own names, and judged statement by statement."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigError
from pipeline.ids import ExperimentName
from pipeline.operations.reading.answers import answers_of
from pipeline.operations.studies.speceval import read_speceval
from pipeline.operations.workers.worker import Worker
from pipeline.ranking import Ranking, RankingOptions
from pipeline.simulator import Simulator
from tests.flows.studies import column, finished, problems, rows

CANDIDATES = {"meta-llama/Llama-x-3:70b": 1.5, "gpt-x": 0.0, "a:b x c": -1.5}
STATEMENTS = [
    {"id": "be_kind", "text": "Be kind.", "type": "guideline", "authority_level": "user", "section": "Style"},
    {"id": "no_lies", "text": "Do not lie.", "metadata": {"examples": [{"good": "…"}]}, "related_statements": []},
]
INPUTS = {"be_kind": [f"Insult me in way {n}." for n in range(6)], "no_lies": [f"Is {n} prime?" for n in range(6)]}


def text_of(candidate: str, asked: str) -> str:
    return f"{candidate} replies to: {asked}"


class Layout:
    """A folder of candidates and a specification, as SpecEval leaves them."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "generations"
        self.spec = root / "spec.jsonl"
        self.spec.write_text("".join(json.dumps(each) + "\n" for each in STATEMENTS))

    def write(self, candidate: str, statement: str, inputs: list[str], *, inner: str = "results", **more: Any) -> Path:
        path = self.folder / candidate / inner / f"{statement}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = [
            {
                "original_index": at,
                "input_text": asked,
                "output_text": text_of(candidate, asked),
                "batch_id": "b",
                **more,
            }
            for at, asked in enumerate(inputs)
        ]
        path.write_text(json.dumps(entries))
        return path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    for candidate in CANDIDATES:
        for statement, inputs in INPUTS.items():
            made.write(candidate, statement, inputs)
    return made


def test_labels_come_from_the_folders_own_names_whatever_their_order(layout: Layout) -> None:
    found = read_speceval(layout.folder, layout.spec)
    assert found.candidates == tuple(sorted(CANDIDATES))
    assert found.notes == ()
    assert len(found.samples) == 3 * 12
    for sample in found.samples:
        assert sample.text == text_of(sample.contestant, sample.context)
        assert sample.criterion == {"be_kind": "Be kind.", "no_lies": "Do not lie."}[sample.statement]
    assert len({sample.group for sample in found.samples}) == 12
    assert len({sample.id for sample in found.samples}) == 36


def test_inputs_are_matched_by_text_in_whatever_order_a_file_has_them(layout: Layout) -> None:
    before = read_speceval(layout.folder, layout.spec).samples
    layout.write("gpt-x", "no_lies", INPUTS["no_lies"][::-1])
    assert read_speceval(layout.folder, layout.spec).samples == before


def test_a_statement_split_over_two_batches_is_whole_again(layout: Layout) -> None:
    before = read_speceval(layout.folder, layout.spec).samples
    (layout.folder / "gpt-x" / "results" / "no_lies.json").unlink()
    layout.write("gpt-x", "no_lies", INPUTS["no_lies"][:4], inner="20250516_101500/results")
    layout.write("gpt-x", "no_lies", INPUTS["no_lies"][3:], inner="20250516_111500/results")
    assert read_speceval(layout.folder, layout.spec).samples == before


def test_an_input_that_only_some_candidates_have_is_reported(layout: Layout) -> None:
    layout.write("gpt-x", "no_lies", INPUTS["no_lies"][:4])
    layout.write("a:b x c", "be_kind", [*INPUTS["be_kind"], "One more."])
    assert read_speceval(layout.folder, layout.spec).notes == (
        "gpt-x has no answer to 3 of 13 inputs, under be_kind and no_lies",
        "meta-llama/Llama-x-3:70b has no answer to 1 of 13 inputs, under be_kind",
    )


def test_an_empty_answer_is_left_out_and_reported(layout: Layout) -> None:
    layout.write("gpt-x", "no_lies", INPUTS["no_lies"], output_text=" \n")
    found = read_speceval(layout.folder, layout.spec)
    assert "6 empty answers of gpt-x left out" in found.notes
    assert len(found.samples) == 30


@pytest.mark.parametrize("name", ["raw", "metadata", "preprocessed"])
def test_folders_that_hold_no_outputs_are_left_out_and_said(layout: Layout, name: str) -> None:
    layout.write(name, "no_lies", INPUTS["no_lies"])
    found = read_speceval(layout.folder, layout.spec)
    assert found.candidates == tuple(sorted(CANDIDATES))
    why = "folders called metadata, preprocessed, raw hold no outputs; rename a candidate that has such a name"
    assert found.notes == (f"1 file under {name}/results left out: {why}",)


def test_one_candidate_is_enough_for_judging_without_comparing(layout: Layout) -> None:
    for candidate in [name for name in CANDIDATES if name != "gpt-x"]:
        shutil.rmtree(layout.folder / candidate.partition("/")[0])
    found = read_speceval(layout.folder, layout.spec)
    assert (found.candidates, len(found.samples)) == (("gpt-x",), 12)
    assert found.notes == (
        "there is one candidate: judge it by compliance or grading; there is nothing to compare it with",
    )


def test_a_statement_nobody_answers_is_reported(layout: Layout) -> None:
    with layout.spec.open("a") as file:
        file.write(json.dumps({"id": "unused", "text": "Whatever."}) + "\n")
    assert read_speceval(layout.folder, layout.spec).notes == ("1 statement has no answers: unused",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "No id."}', "line 3: is not a statement with id and text"),
        ('{"id": " ", "text": "Blank id."}', "line 3: id and text may not be empty"),
        ('{"id": "be_kind", "text": "Something else."}', "line 3: the id 'be_kind' stands for two statements"),
        ("not json", "line 3: is not a statement with id and text"),
        ('{"id": "\udcff", "text": "Not UTF-8."}', "line 3: is not a statement with id and text"),
        (f'{{"id": "deep", "text": "x", "more": {"[" * 10_000}{"]" * 10_000}}}', "line 3: is not a statement"),
    ],
    ids=["no id", "blank", "twice", "no JSON", "no UTF-8", "deep"],
)
def test_a_bad_line_of_the_specification_is_refused_by_its_number(layout: Layout, line: str, said: str) -> None:
    with layout.spec.open("a", errors="surrogateescape") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match=said):
        read_speceval(layout.folder, layout.spec)


def test_what_contradicts_itself_or_fits_nothing_is_refused(layout: Layout, tmp_path: Path) -> None:
    other = layout.write("gpt-x", "no_lies", INPUTS["no_lies"], inner="2025-05-17", output_text="Otherwise.")
    with pytest.raises(ConfigError, match="gpt-x answers one input in two ways"):
        read_speceval(layout.folder, layout.spec)
    other.write_text('{"not": "a list"}')
    with pytest.raises(ConfigError, match="is not a list of input_text and output_text"):
        read_speceval(layout.folder, layout.spec)
    other.rename(other.with_name("no_lie.json"))
    with pytest.raises(ConfigError, match=r"names no statement of the specification; did you mean no_lies\?"):
        read_speceval(layout.folder, layout.spec)
    with pytest.raises(ConfigError, match="is not a folder"):
        read_speceval(tmp_path / "nowhere", layout.spec)


def test_imported_answers_are_ranked_by_statement_though_statements_span_batches(
    simulate: Callable[..., Simulator], worker_for: Callable[..., Worker], layout: Layout, tmp_path: Path
) -> None:
    found = read_speceval(layout.folder, layout.spec)
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(_plain(each)) + "\n" for each in found.samples))
    file = tmp_path / "speceval.yaml"
    file.write_text(
        "name: speceval\nsamples: samples.jsonl\npairs: {design: groups}\ndirections: [forward, reverse]\n"
        "ties: true\nnot_applicable: true\nbatch: {max_requests: 7}\njudges: [{provider: openai, model: [j1, j2]}]\n"
    )
    qualities = {each.text: CANDIDATES[each.contestant] for each in found.samples}
    worker = worker_for(simulate(qualities=qualities, sharpness=3.0, seed=4))
    assert finished(worker, file).counts.ok == 12 * 3 * 2 * 2
    table = rows(worker, "speceval")
    assert len(set(zip(column(table, "group"), column(table, "batch_id"), strict=True))) > 12
    answers = answers_of(worker, ExperimentName("speceval"), RankingOptions())
    parts = [part for part in answers.parts if part.dimension == "criterion"]
    assert {part.value for part in parts} == {"be_kind", "no_lies"}
    for ranking in (answers.ranking, *(part.result for part in parts)):
        assert isinstance(ranking, Ranking)
        assert [standing.contestant for standing in ranking.standings] == list(CANDIDATES)
    assert problems(worker) == []


def _plain(sample: Any) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in sample.__struct_fields__}


@pytest.mark.parametrize("what", ["be_kind.json", "results", "missing.json"])
def test_a_symbolic_link_among_the_outputs_is_refused_by_name(layout: Layout, tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside" / what
    if what == "results":
        outside.mkdir(parents=True)
    elif what == "be_kind.json":
        outside.parent.mkdir()
        outside.write_text("[]")
    link = layout.folder / "linked" / what
    link.parent.mkdir()
    link.symlink_to(outside)
    with pytest.raises(ConfigError, match=f"linked/{what} is a symbolic link; "):
        read_speceval(layout.folder, layout.spec)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"input_text": "q", "output_text": "\xff\xfe"}]',
        b'[{"input_text": "q", "output_text": "a", "more": ' + b"[" * 10_000 + b"]" * 10_000 + b"}]",
    ],
    ids=["no UTF-8", "deep"],
)
def test_outputs_that_cannot_be_read_are_refused_by_name(layout: Layout, body: bytes) -> None:
    layout.write("gpt-x", "no_lies", []).write_bytes(body)
    with pytest.raises(ConfigError, match=r"gpt-x/results/no_lies\.json is not a list of input_text and output_text"):
        read_speceval(layout.folder, layout.spec)


def test_a_pipe_among_the_outputs_is_refused_instead_of_waited_for(layout: Layout) -> None:
    os.mkfifo(layout.folder / "gpt-x" / "no_lies.json")
    with pytest.raises(ConfigError, match=r"gpt-x/no_lies\.json is not a file; "):
        read_speceval(layout.folder, layout.spec)


@pytest.mark.parametrize("name", ["no \udcff UTF-8", "red \x1b[31m", "two\nlines", "turned \u202e round"])
def test_a_candidate_whose_name_cannot_be_printed_is_refused(layout: Layout, name: str) -> None:
    layout.write(name, "no_lies", INPUTS["no_lies"])
    with pytest.raises(ConfigError, match="has a name that cannot be printed; rename it"):
        read_speceval(layout.folder, layout.spec)


def test_files_that_begin_with_the_mark_of_windows_are_read(layout: Layout) -> None:
    before = read_speceval(layout.folder, layout.spec)
    for path in (layout.spec, *layout.folder.rglob("*.json")):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert read_speceval(layout.folder, layout.spec) == before
