"""What simulated models write: as good as the model is, in words that tell a judge so wherever they turn up."""

import json
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.simulator.judge import Ask, Judge
from pipeline.simulator.settings import SimulatorSettings
from pipeline.simulator.texts import hidden_quality, written

FORM = """\
Judge this.
<SAMPLE>
{text}
</SAMPLE>
Fill in:
<EXPLANATION>why</EXPLANATION>
<COMPLIANT>YES or NO</COMPLIANT>
<CONFIDENCE>how sure you are, a number from 0 (a guess) to 1 (certain)</CONFIDENCE>
<SCORE>a whole number from -2 (lowest) to 2 (highest)</SCORE>
<LABEL>one of bad, middling, good, word for word</LABEL>"""
SCHEMA = {
    "type": "object",
    "properties": {
        "explanation": {"type": "string"},
        "compliant": {"type": "boolean"},
        "confidence": {"type": "number"},
        "score": {"type": "integer", "enum": [1, 2, 3]},
        "label": {"type": "string", "enum": ["bad", "middling", "good"]},
    },
}


def judge(**settings: object) -> Judge:
    return Judge(SimulatorSettings(**settings))  # type: ignore[arg-type]


@given(st.text(), st.floats(-8, 8))
def test_a_quality_is_found_in_the_text_it_was_hidden_in(text: str, quality: float) -> None:
    assert hidden_quality(written("A text.", quality)) == pytest.approx(quality, abs=0.01)
    assert hidden_quality(text) is None or "Four words close it" in text


def test_a_conversation_is_as_good_as_its_texts_are_on_average() -> None:
    talk = f"User: a\n\nModel: {written('A.', 2.0)}\n\nUser: b\n\nModel: {written('B.', -1.0)}"
    assert hidden_quality(talk) == pytest.approx(0.5, abs=0.01)


def test_a_model_writes_texts_of_about_its_skill_and_another_judge_sees_it() -> None:
    writer = judge(skills={"good": 1.5, "bad": -1.5}, seed=1)
    reader = judge(seed=2)
    for model, skill in (("good", 1.5), ("bad", -1.5)):
        texts = [writer.reply(Ask(model=model, prompt=f"Question {number}?")).text for number in range(60)]
        assert len(set(texts)) == 60
        assert mean(reader.quality(text) for text in texts) == pytest.approx(skill, abs=0.15)


@pytest.mark.parametrize(("quality", "expected"), [(6.0, ("YES", "2", "good")), (-6.0, ("NO", "-2", "bad"))])
def test_a_form_is_filled_in_by_how_good_the_text_is(quality: float, expected: tuple[str, str, str]) -> None:
    text = judge(qualities={"the text": quality}).reply(Ask(model="m", prompt=FORM.format(text="the text"))).text
    compliant, score, label = expected
    assert f"<COMPLIANT>{compliant}</COMPLIANT>" in text
    assert f"<SCORE>{score}</SCORE>" in text
    assert f"<LABEL>{label}</LABEL>" in text


@pytest.mark.parametrize(("quality", "expected"), [(6.0, (True, 3, "good")), (-6.0, (False, 1, "bad"))])
def test_a_schema_is_filled_in_by_how_good_the_text_is(quality: float, expected: tuple[object, ...]) -> None:
    asked = Ask(model="m", prompt=FORM.format(text="the text"), schema=SCHEMA)
    found = json.loads(judge(qualities={"the text": quality}).reply(asked).text)
    assert (found["compliant"], found["score"], found["label"]) == expected
    assert 0.9 < found["confidence"] <= 1
