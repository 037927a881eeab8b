"""What an experiment file may say for each task, and what a person is told who says something else."""

from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.experiment import read_experiment
from pipeline.operations.studies.plans import plan
from pipeline.tasks import task_keys

HEAD = "name: e\nsamples: s.jsonl\njudges: [{provider: openai, model: m}]\n"


def said_about(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_experiment(f"{HEAD}{text}".encode(), source="e.yaml", tasks=task_keys())
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("task: gradng", "line 4: task is 'gradng'; did you mean grading?"),
        ("task: grading", "scale is missing; add {low: 1, high: 5}, with labels if you like"),
        ("task: grading\nscale: 5", "line 5: scale is 5; it must be {low: 1, high: 5}, with labels if you like"),
        ("task: grading\nscale: {low: 5, high: 1}", "low is 5 and high 1; high must be larger"),
        ("task: grading\nscale: {low: 1, hihg: 5}", "scale.hihg is not a known key; did you mean high?"),
        ("task: grading\nscale: {low: 1, high: 3, labels: [a, b]}", "labels has 2 texts, but the scale has 3 steps"),
        (
            "task: grading\nscale: {low: 1, high: 3, labels: {'4': a}}",
            "labels names '4', which is not a step from 1 to 3",
        ),
        ("scale: {low: 1, high: 5}", "line 4: scale goes with task grading, not with pairwise; remove it, or change"),
        ("task: generation\npairs: {design: all}", "line 5: pairs goes with task pairwise, not with generation"),
        (
            "task: generation\ncriterion: clarity",
            "criterion goes with task compliance or grading or pairwise, not with",
        ),
        ("task: compliance\nties: true", "line 5: ties goes with task pairwise, not with compliance"),
        ("task: compliance\ndirections: [forward, reverse]", "directions goes with task pairwise, not with compliance"),
        (
            "task: conversation\nturns: []\nscale: {low: 1, high: 2}",
            "scale goes with task grading, not with conversation",
        ),
        ("task: conversation\nturn: [a]", "turn is not a known key; did you mean turns?"),
        ("task: conversation\nturns: ['']", "turns[0] is ''; it must be text that is not empty"),
        ("task: classification", "labels is missing; add {label: what it means, …} with at least two labels"),
        ("task: classification\nlabels: {a: b}", "it must be {label: what it means, …} with at least two labels"),
        ("task: classification\nlabels: {a: x, A: y}", "labels holds two that differ only in letter case"),
        ("task: 3", "task is 3, which YAML does not read as text; put it in quotes"),
        ("not_applicable: maybe", "not_applicable is 'maybe'; it must be true or false"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(text: str, said: str) -> None:
    assert said in said_about(text)


@pytest.mark.parametrize(
    ("text", "samples", "said"),
    [
        (
            "task: conversation\n",
            '{"id": "a", "text": "b"}',
            "a conversation needs turns: say in the file what follows",
        ),
        ("task: conversation\nturns: [x]\n", '{"id": "a", "text": "b", "turns": ["y", " "]}', "'a' has an empty turn"),
        ("task: conversation\nturns: [x]\n", '{"id": "a", "text": "b", "turns": "y"}', "turns does not hold lists of"),
        ("task: generation\ntemplates: [brief]\n", '{"id": "a", "text": "b"}', "not a built-in template; give a path"),
        ("task: generation\ntemplates: [t.txt]\n", '{"id": "a", "text": "b"}', "{CONTEXT} is not a placeholder"),
        (
            "task: compliance\ntemplates: [two.txt]\n",
            '{"id": "a", "text": "b"}',
            "{SAMPLE_1} is not a placeholder; did",
        ),
    ],
)
def test_a_file_that_its_samples_or_templates_do_not_fit_is_refused(
    tmp_path: Path, text: str, samples: str, said: str
) -> None:
    (tmp_path / "s.jsonl").write_text(samples + "\n")
    (tmp_path / "t.txt").write_text("{SAMPLE}\n\n{CONTEXT}")
    (tmp_path / "two.txt").write_text("{SAMPLE_1} {SAMPLE_2}")
    (tmp_path / "e.yaml").write_text(f"{HEAD}{text}")
    with pytest.raises(ConfigError) as caught:
        plan(str(tmp_path / "e.yaml"))
    assert said in str(caught.value)


def test_a_judges_own_answer_does_not_go_with_a_free_text(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "b"}\n')
    file = tmp_path / "e.yaml"
    file.write_text(
        "name: e\nsamples: s.jsonl\ntask: generation\njudges: [{provider: openai, model: m, answer: json}]\n"
    )
    with pytest.raises(ConfigError, match=r"judges\[0\]\.answer does not go with task generation"):
        plan(str(file))


def test_a_provider_without_schemas_is_asked_by_tags(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "b"}\n')
    file = tmp_path / "e.yaml"
    file.write_text(
        "name: e\nsamples: s.jsonl\ntask: compliance\n"
        "judges: [{provider: openai, model: m}, {provider: bedrock, model: amazon.nova-pro-v1:0}]\n"
    )
    assert [run.config.judge.answer for run in plan(str(file)).runs] == ["json", "tag"]


def test_options_left_at_their_default_are_not_frozen_so_that_old_request_ids_stay(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"id": "a", "text": "b"}\n{"id": "c", "text": "d"}\n')
    digests = []
    for name, more in (("e", ""), ("f", "not_applicable: false\n"), ("g", "not_applicable: true\n")):
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"{HEAD}{more}")
        digests.append(plan(str(file)).runs[0].config.digest())
    assert digests[0] == digests[1] != digests[2]
