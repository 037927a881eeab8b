"""The grid as runs, and what differs between two versions of one."""

import re
from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Criterion, Direction, Judge, Mode, Rate, RunConfig, Tags, Template
from pipeline.errors import ConfigError
from pipeline.experiment import ExperimentFile, changes, expand, rates, read_experiment, template_name
from pipeline.ids import Digest, digest
from pipeline.tasks import task_keys

TEMPLATE = Template(name="default", text="Which? {SAMPLE_1} {SAMPLE_2}")
CRITERION = Criterion(name="clarity", description="Which is clearer?")
REQUESTS: dict[Direction, int] = {"forward": 190, "reverse": 95}


def default_mode(provider: str) -> Mode:
    return "live" if provider == "ollama" else "batch"


def a_file(judges: str, more: str = "") -> ExperimentFile:
    return read_experiment(
        f"name: e\nsamples: s.csv\njudges: [{judges}]\n{more}".encode(), source="e.yaml", tasks=task_keys()
    )


def runs_of(file: ExperimentFile) -> tuple[RunConfig, ...]:
    return expand(
        file,
        templates={
            template_name(entry): Template(name=template_name(entry), text=TEMPLATE.text) for entry in file.templates
        },
        criterion=CRITERION,
        modes=default_mode,
        task_version=1,
        samples=digest(b"samples"),
        pairs=digest(b"pairs"),
        requests=REQUESTS,
    )


def ids_of(file: ExperimentFile) -> list[str]:
    return [run.run_id for run in runs_of(file)]


def a_run() -> RunConfig:
    return runs_of(a_file("{provider: openai, model: m, max_output_tokens: 500}"))[0]


def test_a_run_holds_everything_that_shapes_its_requests() -> None:
    file = a_file("{provider: openai, model: m, reasoning: low, endpoint: chat}", "ties: true\nanswer: json")
    assert runs_of(file) == (
        RunConfig(
            run_id=runs_of(file)[0].run_id,
            task="pairwise",
            task_version=1,
            template=TEMPLATE,
            criterion=CRITERION,
            tags=Tags(),
            ties=True,
            judge=Judge(provider="openai", model="m", reasoning="low", mode="batch", answer="json", endpoint="chat"),
            direction="forward",
            repeat=1,
            samples=digest(b"samples"),
            pairs=digest(b"pairs"),
            requests=190,
        ),
    )


def test_the_grid_is_expanded_in_file_order() -> None:
    file = a_file(
        "{provider: openai, model: [m1, m2], reasoning: [none, low]}, {provider: gemini, model: g}",
        "templates: [default, x/other.txt]\ndirections: [forward, reverse]\nrepeats: 2",
    )
    judges = [*product(["openai"], ["m1", "m2"], ["none", "low"]), ("gemini", "g", "default")]
    assert ids_of(file) == [
        "--".join(["e", template, *judge, direction, *repeat])
        for template, judge, direction, repeat in product(
            ["default", "other"], judges, ["forward", "reverse"], [[], ["r2"]]
        )
    ]


def test_a_direction_has_its_own_number_of_requests() -> None:
    file = a_file("{provider: openai, model: m}", "directions: [forward, reverse]\nreverse_share: 0.5")
    assert [(run.direction, run.requests) for run in runs_of(file)] == [("forward", 190), ("reverse", 95)]


def test_odd_model_names_get_plain_run_ids_and_stay_in_the_judge() -> None:
    (run,) = runs_of(a_file("{provider: together, model: 'Qwen/Qwen3:X@fp8'}"))
    assert (run.run_id, run.judge.model) == (
        "e--default--together--qwen-qwen3-x-fp8--default--forward",
        "Qwen/Qwen3:X@fp8",
    )


def test_models_that_would_share_a_run_id_do_not() -> None:
    ids = ids_of(a_file("{provider: together, model: [a/b, 'a:b', 'a@b', a-b]}"))
    assert len(set(ids)) == 4
    assert ids[0] == "e--default--together--a-b--default--forward"


def test_one_model_with_several_settings_is_several_runs() -> None:
    settings = ["", ", answer: json", ", max_output_tokens: 9", ", temperature: 0", ", endpoint: responses"]
    file = a_file(", ".join(f"{{provider: openai, model: m{each}}}" for each in settings), "repeats: 2")
    ids = ids_of(file)
    assert len(set(ids)) == 10
    assert ids[:2] == ["e--default--openai--m--default--forward", "e--default--openai--m--default--forward--r2"]
    assert all(re.fullmatch(r"e--default--openai--m--default--forward(--r2)?--[0-9a-f]{8}", each) for each in ids[2:])


def test_growing_the_grid_leaves_the_existing_runs_alone() -> None:
    small = runs_of(a_file("{provider: openai, model: m}"))
    grown = runs_of(
        a_file(
            "{provider: openai, model: m}, {provider: openai, model: [m2, m3], reasoning: [none, low]}",
            "templates: [default, x/other.txt]\ndirections: [forward, reverse]\nrepeats: 3",
        )
    )
    assert {run.run_id: run for run in grown}[small[0].run_id] == small[0]


def test_a_provider_without_batches_is_called_live() -> None:
    file = a_file("{provider: ollama, model: m, requests_per_second: 3}, {provider: openai, model: m, mode: live}")
    assert [run.judge.mode for run in runs_of(file)] == ["live", "live"]


def test_a_rate_for_a_judge_that_turns_out_to_use_batches_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"judges\[0\]\.requests_per_second goes only with live calls"):
        runs_of(a_file("{provider: openai, model: m, requests_per_second: 3}"))


def test_judges_that_become_equal_by_their_default_answer_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"judges\[1\] repeats an earlier judge \(openai, m, default\)"):
        runs_of(a_file("{provider: openai, model: m}, {provider: openai, model: m, answer: tag}"))


def test_judges_that_become_equal_by_their_default_mode_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"judges\[1\] repeats an earlier judge \(openai, m, default\)"):
        runs_of(a_file("{provider: openai, model: m}, {provider: openai, model: m, mode: batch}"))


def test_a_rate_is_no_part_of_a_run() -> None:
    slow, fast = (a_file(f"{{provider: ollama, model: m, requests_per_second: {rate}}}") for rate in (1, 50))
    assert runs_of(slow) == runs_of(fast)
    assert rates(fast) == (Rate(provider="ollama", model="m", requests_per_second=50),)


def test_the_lowest_of_several_rates_for_a_model_holds() -> None:
    file = a_file(
        "{provider: ollama, model: [m, n], requests_per_second: 5}, "
        "{provider: ollama, model: m, reasoning: low, requests_per_second: 2}, {provider: openai, model: x}"
    )
    assert rates(file) == (
        Rate(provider="ollama", model="m", requests_per_second=2),
        Rate(provider="ollama", model="n", requests_per_second=5),
    )


def replaced(run: RunConfig, **fields: object) -> RunConfig:
    return msgspec.structs.replace(run, **fields)


def with_judge(run: RunConfig, **fields: object) -> RunConfig:
    return replaced(run, judge=msgspec.structs.replace(run.judge, **fields))


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (a_run(), []),
        (replaced(a_run(), template=Template(name="default", text="Other")), ["template default: its text"]),
        (replaced(a_run(), template=Template(name="b", text="Other")), ["template: default -> b"]),
        (replaced(a_run(), criterion=Criterion(name="style", description="x")), ["criterion: clarity -> style"]),
        (
            replaced(a_run(), criterion=Criterion(name="clarity", description="x")),
            ["criterion clarity: its description"],
        ),
        (replaced(a_run(), samples=Digest("0")), ["samples"]),
        (replaced(a_run(), pairs=Digest("0"), requests=3), ["pairs", "requests: 190 -> 3"]),
        (replaced(a_run(), ties=True, task_version=2), ["task version: 1 -> 2", "ties: false -> true"]),
        (replaced(a_run(), tags=Tags(prefix="[[")), ["tags.prefix: <BETTER_SAMPLE> -> [["]),
        (with_judge(a_run(), max_output_tokens=800), ["max_output_tokens: 500 -> 800"]),
        (
            with_judge(a_run(), max_output_tokens=None, answer="json"),
            ["answer: tag -> json", "max_output_tokens: 500 -> not set"],
        ),
    ],
)
def test_a22_changes_are_told_in_words(new: RunConfig, said: list[str]) -> None:
    assert changes(a_run(), new) == said


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "task_version": st.integers(1, 2),
            "ties": st.booleans(),
            "direction": st.sampled_from(["forward", "reverse"]),
            "repeat": st.integers(1, 2),
            "samples": st.sampled_from([digest(b"samples"), digest(b"others")]),
            "template": st.builds(Template, name=st.just("default"), text=st.sampled_from([TEMPLATE.text, "x"])),
            "judge": st.builds(
                Judge, provider=st.just("openai"), model=st.just("m"), max_output_tokens=st.sampled_from([500, 1])
            ),
        },
    )
)
def test_a_change_is_told_exactly_when_request_ids_would_change(fields: dict[str, object]) -> None:
    new = replaced(a_run(), **fields)
    assert bool(changes(a_run(), new)) == (a_run().digest() != new.digest())
