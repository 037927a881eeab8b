"""The judge has opinions that are known: the same prompt gets the same answer, and better texts win."""

import json
import math
from collections import Counter
from itertools import permutations
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.simulator import SimulatorSettings
from pipeline.simulator.judge import Ask, Judge
from tests.simulator.openai_wire import VERDICT, a_prompt

VERDICT_OR_TIE = {**VERDICT, "properties": {"better": {"type": "string", "enum": ["first", "second", "tie"]}}}


def a_judge(**fields: Any) -> Judge:
    return Judge(SimulatorSettings(**fields))


def an_ask(prompt: str | None = None, **fields: Any) -> Ask:
    return Ask(model="gpt-6-luna", prompt=prompt or a_prompt(), **fields)


@given(first=st.text(max_size=50), second=st.text(max_size=50), seed=st.integers(0, 99))
def test_the_same_prompt_always_gets_the_same_reply(first: str, second: str, seed: int) -> None:
    ask = an_ask(a_prompt(first, second))
    assert a_judge(seed=seed).reply(ask) == a_judge(seed=seed).reply(ask)


def test_seed_model_effort_and_prompt_each_change_the_draw() -> None:
    prompts = [a_prompt(f"text {number}", "same") for number in range(60)]
    once = _outcomes(prompts)
    assert set(once) == {"first", "second"}
    assert once == _outcomes(prompts)
    others = (
        _outcomes(prompts, seed=2),
        _outcomes(prompts, model="other"),
        _outcomes(prompts, effort="low"),
        _outcomes([f"{prompt} " for prompt in prompts]),
    )
    assert all(once != other for other in others)


def _outcomes(
    prompts: list[str], *, seed: int = 1, model: str = "gpt-6-luna", effort: str = "none"
) -> list[str | None]:
    judge = a_judge(seed=seed, sharpness=0.0)
    asks = (Ask(model=model, prompt=prompt, effort=effort) for prompt in prompts)
    return [judge.reply(ask).outcome for ask in asks]


@pytest.mark.parametrize(
    ("bias", "sharpness", "chance"),
    [(0.0, 1.0, 1 / (1 + math.exp(-2))), (1.0, 0.0, 1 / (1 + math.exp(-1))), (0, 0, 0.5)],
)
def test_the_share_of_first_follows_quality_sharpness_and_bias(bias: float, sharpness: float, chance: float) -> None:
    judge = a_judge(qualities={"good": 2.0, "bad": 0.0}, bias=bias, sharpness=sharpness)
    assert judge.chance("good", "bad") == pytest.approx(chance)
    outcomes = Counter(judge.reply(an_ask(f"{number} {a_prompt('good', 'bad')}")).outcome for number in range(2000))
    assert outcomes["first"] / 2000 == pytest.approx(chance, abs=0.04)


def test_a_text_of_unknown_quality_has_one_that_is_normally_spread() -> None:
    judge = a_judge()
    qualities = [judge.quality(f"text {number}") for number in range(2000)]
    assert judge.quality("text 7") == qualities[7]
    assert fmean(qualities) == pytest.approx(0, abs=0.08)
    assert stdev(qualities) == pytest.approx(1, abs=0.08)


def test_the_hidden_order_is_recovered_by_counting_wins() -> None:
    qualities = {f"Essay {number} of the set.": float(number) for number in range(8)}
    judge = a_judge(qualities=qualities, sharpness=2.0, bias=0.3)
    wins: Counter[str] = Counter(dict.fromkeys(qualities, 0))
    for first, second in permutations(qualities, 2):
        for number in range(5):
            reply = judge.reply(an_ask(f"Round {number}. {a_prompt(first, second)}"))
            wins[first if reply.outcome == "first" else second] += 1
    assert sorted(wins, key=lambda text: wins[text]) == list(qualities)


@pytest.mark.parametrize(("schema", "ties"), [(VERDICT, False), (VERDICT_OR_TIE, True)])
def test_structured_output_says_only_what_the_schema_allows(schema: dict[str, Any], ties: bool) -> None:
    judge = a_judge(tie_rate=1.0)
    reply = judge.reply(an_ask(schema=schema))
    assert json.loads(reply.text) == {"better": reply.outcome}
    assert (reply.outcome == "tie") is ties


def test_ties_come_at_their_rate_where_the_tag_offers_them() -> None:
    judge = a_judge(tie_rate=0.25)
    offered = [
        judge.reply(an_ask(f"{number} {a_prompt()} Or <BETTER_SAMPLE>TIE</BETTER_SAMPLE>")) for number in range(1000)
    ]
    assert fmean(reply.outcome == "tie" for reply in offered) == pytest.approx(0.25, abs=0.05)
    assert all(("TIE" in reply.text) is (reply.outcome == "tie") for reply in offered)
    assert judge.reply(an_ask()).outcome != "tie"


def test_a_wide_schema_is_filled_with_what_it_asks_for() -> None:
    schema = {
        "type": "object",
        "properties": {
            "verdict": {"enum": ["pass", "fail"]},
            "score": {"type": "integer", "minimum": 3, "maximum": 5},
            "sure": {"type": "boolean"},
            "why": {"type": "string"},
            "marks": {"type": "array", "items": {"type": "number"}},
            "other": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "fixed": {"const": 7},
        },
    }
    answer = json.loads(a_judge().reply(an_ask("Does this comply?", schema=schema)).text)
    assert answer["verdict"] in ("pass", "fail")
    assert answer["score"] in (3, 4, 5)
    assert isinstance(answer["sure"], bool)
    assert answer["why"]
    assert [type(mark) for mark in answer["marks"]] == [int]
    assert (answer["other"], answer["fixed"]) == (None, 7)


def test_a_prompt_that_is_not_pairwise_gets_a_short_text_of_its_own() -> None:
    judge = a_judge()
    one, two = judge.reply(an_ask("Write a poem.")), judge.reply(an_ask("Write a play."))
    assert one.outcome is None
    assert one.text != two.text
    assert one == judge.reply(an_ask("Write a poem."))


def test_reasoning_costs_tokens_and_is_part_of_the_output() -> None:
    plain, low, high = (a_judge().reply(an_ask(effort=effort)) for effort in ("none", "low", "high"))
    assert plain.reasoning_tokens == 0 < low.reasoning_tokens < high.reasoning_tokens
    assert low.output_tokens > low.reasoning_tokens
    assert low.thoughts
    assert not plain.thoughts


@pytest.mark.parametrize(("limit", "text"), [(3, "<BETTER_"), (1, ""), (1000, None)])
def test_a_reply_longer_than_allowed_is_cut(limit: int, text: str | None) -> None:
    whole = a_judge().reply(an_ask())
    reply = a_judge().reply(an_ask(max_output_tokens=limit))
    assert reply.text == (whole.text if text is None else text)
    assert reply.stop == ("stop" if text is None else "length")
    assert reply.output_tokens <= limit


def test_thinking_alone_can_use_up_the_limit() -> None:
    reply = a_judge().reply(an_ask(effort="high", max_output_tokens=20))
    assert (reply.text, reply.stop, reply.reasoning_tokens, reply.output_tokens) == ("", "length", 20, 20)
