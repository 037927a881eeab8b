"""The fast path of request lines gives exactly what the obvious slow path gives."""

import json

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Answer, Criterion, Direction, Judge, RunConfig, Tags, Template
from pipeline.ids import Digest, PairIds, RequestIds, RunId
from pipeline.operations.workers.requests import renderer
from pipeline.pairing import NO_PAIRS, make_pairs
from pipeline.samples import Samples
from pipeline.tasks import tasks
from pipeline.tasks.rendering import Material
from pipeline.tasks.templates import Slot, compile_template
from tests.tasks.filling import filled

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60).filter(lambda text: text.strip())
NASTY = st.sampled_from(
    [
        "{SAMPLE_2}",
        "{TRAIT_NAME}",
        '{"better": "first"}',
        "</SAMPLE_1>",
        "a\u2028b\u2029c\x85d",
        "\x00",
        '"\\',
        "😀" * 9,
    ]
)


def a_config(
    *,
    answer: Answer = "tag",
    direction: Direction = "forward",
    template: str = "{SAMPLE_1}|{SAMPLE_2}",
    share: float = 1.0,
) -> RunConfig:
    return RunConfig(
        run_id=RunId("e--t--openai--m--default--forward"),
        task="pairwise",
        task_version=1,
        template=Template(name="t", text=template),
        criterion=Criterion(name="Quality", description="How good it is."),
        tags=Tags(),
        ties=False,
        judge=Judge(provider="openai", model="gpt-6-luna", answer=answer),
        direction=direction,
        repeat=1,
        samples=Digest("s"),
        pairs=Digest("p"),
        requests=0,
        share=share,
    )


def a_material(texts: list[str], *, contexts: list[str | None] | None = None) -> Material:
    table = pa.table({"id": [f"id {n}" for n in range(len(texts))], "text": texts})
    if contexts is not None:
        table = table.append_column("context", pa.array(contexts, pa.string()))
    pairs = make_pairs(len(texts), groups=None, design="all", count=None, share=None, seed=1, order="random")
    return Material.of(Samples.of(table, source="test"), pairs)


def slow_line(config: RunConfig, material: Material, texts: list[str], position: int) -> dict[str, object]:
    first, second = int(material.pairs.first[position]), int(material.pairs.second[position])
    if config.direction == "reverse":
        first, second = second, first
    judge = config.judge
    compiled = compile_template(config.template, answer=judge.answer, tags=config.tags, ties=config.ties)
    context = material.contexts[first]
    values: dict[Slot, str] = {
        "SAMPLE_1": texts[first],
        "SAMPLE_2": texts[second],
        "TRAIT_NAME": config.criterion.name,
        "TRAIT_DESCRIPTION": config.criterion.description,
        "CONTEXT": context or "",
    }
    prompt = filled(compiled.fragments(with_context=context is not None), values)
    named = PairIds(material.ids).digests(np.array([first]), np.array([second]))
    body: dict[str, object] = {"model": judge.model, "messages": [{"role": "user", "content": prompt}]}
    if judge.answer == "json":
        schema = {
            "type": "object",
            "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
            "required": ["better"],
            "additionalProperties": False,
        }
        wrapped = {"name": "answer", "strict": True, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": wrapped}
    return {
        "custom_id": RequestIds(config.digest()).encoded(np.array([position]), named)[0].decode(),
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    }


@given(
    st.lists(TEXT | NASTY, min_size=2, max_size=5),
    st.sampled_from(["tag", "json"]),
    st.sampled_from(["forward", "reverse"]),
    st.lists(TEXT | NASTY, max_size=4).map("".join),
)
def test_lines_decode_to_what_the_slow_path_gives(
    texts: list[str], answer: Answer, direction: Direction, words: str
) -> None:
    words = words.replace("{", "(").replace("}", ")")
    template = f"{words}{{SAMPLE_1}} {words} {{TRAIT_NAME}}\n\n{{SAMPLE_2}}{{TRAIT_DESCRIPTION}}{words}"
    config, material = a_config(answer=answer, direction=direction, template=template), a_material(texts)
    made = renderer(config, material)
    lines = b"".join(made.blocks(np.arange(len(made)))).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line) for line in lines] == [slow_line(config, material, texts, n) for n in range(len(made))]
    assert [len(line) + 1 for line in lines] == made.sizes(np.arange(len(made))).tolist()


def test_a_context_is_shown_where_there_is_one_and_its_paragraph_left_out_where_not() -> None:
    texts = ["one", "two", "three"]
    config = a_config(template="Prompt: {CONTEXT}\n\n{SAMPLE_1} {SAMPLE_2}")
    told = a_material(texts, contexts=["Why?"] * 3)
    untold = a_material(texts)
    for material, begins in ((told, "Prompt: Why?\n\n"), (untold, "")):
        made = renderer(config, material)
        assert json.loads(made.line(0)) == slow_line(config, material, texts, 0)
        assert json.loads(made.line(0))["body"]["messages"][0]["content"].startswith(
            begins or texts[material.pairs.first[0]]
        )
        assert [len(made.line(n)) + 1 for n in range(3)] == made.sizes(np.arange(len(made))).tolist()


def test_the_request_id_is_the_same_in_every_rendering_and_differs_by_direction() -> None:
    material = a_material(["one", "two", "three"])
    forward, reverse = (renderer(a_config(direction=each), material) for each in ("forward", "reverse"))
    again, all_ = renderer(a_config(), material), np.arange(3)
    assert forward.request_ids(all_) == again.request_ids(all_)
    assert not set(forward.request_ids(all_).to_pylist()) & set(reverse.request_ids(all_).to_pylist())
    assert forward.names(all_) == reverse.names(all_)


def test_a_share_of_the_reverse_keeps_pairs_of_the_forward_run() -> None:
    material = a_material([f"text {n}" for n in range(9)])
    part = renderer(a_config(direction="reverse", share=0.5), material)
    whole = renderer(a_config(), material)
    assert len(part) == 18
    assert set(part.names(np.arange(18))) < set(whole.names(np.arange(36)))


def test_blocks_of_any_positions_are_the_lines_of_these_positions() -> None:
    made = renderer(a_config(), a_material([f"text {n}" for n in range(30)]))
    chosen = np.array([434, 0, 7, 7, 200], dtype=np.int64)
    assert b"".join(made.blocks(chosen)) == b"".join(made.line(int(n)) + b"\n" for n in chosen)


def test_blocks_are_bounded_by_bytes_however_long_the_samples_are() -> None:
    made = renderer(a_config(), a_material([letter * 100_000 for letter in "abcdefg"]))
    blocks = list(made.blocks(np.arange(len(made))))
    assert [block.count(b"\n") for block in blocks] == [2] * 10 + [1]
    assert max(map(len, blocks)) < 2**19


def a_task_config(task: str, **options: object) -> RunConfig:
    text = tasks()[task].TEMPLATES["default"]
    return msgspec.structs.replace(
        a_config(), task=task, template=Template(name="default", text=text), options=options or msgspec.UNSET
    )


def single(texts: list[str], contexts: list[str | None], turns: list[list[str]] | None = None) -> Material:
    table = pa.table({"id": [f"id {n}" for n in range(len(texts))], "text": texts})
    table = table.append_column("context", pa.array(contexts, pa.string()))
    if turns is not None:
        table = table.append_column("turns", pa.array(turns, pa.list_(pa.string())))
    return Material.of(Samples.of(table, source="test"), NO_PAIRS)


def messages(line: bytes) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(line)["body"]["messages"]
    return found


@given(st.lists(st.tuples(TEXT | NASTY, st.none() | TEXT | NASTY), min_size=1, max_size=5))
def test_prompts_stand_alone_behind_what_the_system_says(pairs: list[tuple[str, str | None]]) -> None:
    texts, contexts = [text for text, _ in pairs], [context for _, context in pairs]
    made = renderer(a_task_config("generation"), single(texts, contexts))
    everything = np.arange(len(made))
    lines = b"".join(made.blocks(everything)).split(b"\n")[:-1]
    for line, text, context in zip(lines, texts, contexts, strict=True):
        system = [] if context is None else [{"role": "system", "content": context}]
        assert messages(line) == [*system, {"role": "user", "content": text}]
    assert [len(line) + 1 for line in lines] == made.sizes(everything).tolist()


@given(st.lists(TEXT | NASTY, min_size=1, max_size=5))
def test_a_single_sample_is_shown_between_its_fences_as_it_is(texts: list[str]) -> None:
    made = renderer(a_task_config("compliance"), single(texts, [None] * len(texts)))
    for position, text in enumerate(texts):
        (message,) = messages(made.line(position))
        assert f"\n<SAMPLE>\n{text}\n</SAMPLE>\n" in message["content"]
        assert "CONTEXT" not in message["content"].replace(text, "")


@given(st.lists(st.lists(TEXT | NASTY, max_size=3), min_size=1, max_size=4), TEXT | NASTY)
def test_a_later_turn_holds_everything_said_and_answered_before(turns: list[list[str]], answer: str) -> None:
    texts = [f"text {number}" for number in range(len(turns))]
    heard: dict[int, str | None] = {}

    def answers(positions: np.ndarray) -> list[str | None]:
        return [heard.get(position) for position in positions.tolist()]

    made = renderer(a_task_config("conversation"), single(texts, [None] * len(texts), turns), answers)
    assert len(made) == len(texts) + sum(map(len, turns))
    order = [(turn, sample) for turn in range(4) for sample, own in enumerate(turns) if len(own) >= turn]
    for position, (turn, sample) in enumerate(order):
        said = [texts[sample], *turns[sample]][: turn + 1]
        told = [f"{answer} to {sample} in {before}" for before in range(turn)]
        expected = [{"role": "user", "content": said[0]}]
        for reply, following in zip(told, said[1:], strict=True):
            expected += [{"role": "assistant", "content": reply}, {"role": "user", "content": following}]
        assert messages(made.line(position)) == expected
        assert made.sizes(np.array([position])).tolist() == [len(made.line(position)) + 1]
        heard[position] = f"{answer} to {sample} in {turn}"
    ids = made.request_ids(np.arange(len(made))).to_pylist()
    assert len(set(ids)) == len(made)


def test_what_goes_on_from_a_segment_is_the_next_turn_of_the_same_samples() -> None:
    turns = [["a", "b"], [], ["c"], ["d", "e"]]
    made = renderer(a_task_config("conversation"), single(["w", "x", "y", "z"], [None] * 4, turns))
    assert (made.asked_at_once, len(made)) == (4, 9)
    assert [made.following(0, 2), made.following(2, 4), made.following(1, 2)] == [range(4, 5), range(5, 7), range(5, 5)]
    assert [made.following(4, 5), made.following(5, 7), made.following(7, 9)] == [range(7, 8), range(8, 9), range(0)]
    assert made.line(7) == b""
