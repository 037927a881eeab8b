"""Answers of several fields, as judges write them, and what is made of each."""

import pytest

from pipeline.domain import Answer
from pipeline.tasks import compliance, grading
from pipeline.tasks.answers import Unparsed
from pipeline.tasks.compliance import Verdict
from pipeline.tasks.grading import Grade, Scale
from tests.contracts.test_tasks import a_config

SCALE = Scale(low=1, high=5)
BECAUSE = "<EXPLANATION>Because.</EXPLANATION>"


def verdict(content: str | None, answer: Answer = "json") -> Verdict | Unparsed:
    return compliance.read(content, a_config("compliance", answer=answer))


def grade(content: str | None, answer: Answer = "json") -> Grade | Unparsed:
    return grading.read(content, a_config("grading", answer=answer), SCALE)


@pytest.mark.parametrize(
    ("content", "answer", "compliant", "confidence"),
    [
        ('{"compliant": true, "confidence": 0.9, "explanation": "Because."}', "json", True, 0.9),
        ('```json\n{"compliant": false, "confidence": 1, "explanation": "Because."}\n```', "json", False, 1.0),
        ('{"compliant": "yes", "confidence": "0.5", "explanation": "Because.", "more": {}}', "json", True, 0.5),
        ('{"compliant": true, "explanation": "Because."}', "json", True, None),
        (f"{BECAUSE}\n<COMPLIANT>YES</COMPLIANT>\n<CONFIDENCE>0.25</CONFIDENCE>", "tag", True, 0.25),
        (f"{BECAUSE} <compliant> **no** </compliant><Confidence>0</Confidence>", "tag", False, 0.0),
        (f"{BECAUSE}<COMPLIANT>true</COMPLIANT>", "tag", True, None),
        (f"ẞ grows when folded. {BECAUSE}<COMPLIANT>NO</COMPLIANT>", "tag", False, None),
    ],
)
def test_a_verdict_is_read(content: str, answer: Answer, compliant: bool, confidence: float | None) -> None:
    found = verdict(content, answer)
    assert isinstance(found, Verdict)
    assert (found.compliant, found.confidence) == (compliant, confidence)
    assert (found.explanation or "").casefold() == "because."


@pytest.mark.parametrize(
    ("content", "answer", "reason"),
    [
        (None, "json", "empty"),
        (" \n", "tag", "empty"),
        ("It depends.", "json", "not_json"),
        ("It depends.", "tag", "no_answer"),
        ("[]", "json", "no_answer"),
        ('{"confidence": 1}', "json", "no_answer"),
        ('{"compliant": null}', "json", "unknown_answer"),
        ('{"compliant": 1}', "json", "unknown_answer"),
        ('{"compliant": true, "confidence": "high"}', "json", "unknown_answer"),
        ('{"compliant": true, "confidence": 1.5}', "json", "out_of_range"),
        ('{"compliant": true, "compliant": false}', "json", "two_answers"),
        ("<COMPLIANT>YES</COMPLIANT> or <COMPLIANT>NO</COMPLIANT>", "tag", "two_answers"),
        ("<COMPLIANT>PERHAPS</COMPLIANT>", "tag", "unknown_answer"),
    ],
)
def test_what_is_no_verdict_says_why_and_is_never_a_no(content: str | None, answer: Answer, reason: str) -> None:
    assert verdict(content, answer) == Unparsed(reason=reason)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "answer", "expected"),
    [
        ('{"score": 4, "explanation": "Because."}', "json", Grade(score=4, explanation="Because.")),
        ('{"score": 4.0}', "json", Grade(score=4, explanation=None)),
        (f"<SCORE> 5 </SCORE>{BECAUSE}", "tag", Grade(score=5, explanation="Because.")),
        ('{"score": 0}', "json", Unparsed(reason="out_of_range")),
        ('{"score": 6}', "json", Unparsed(reason="out_of_range")),
        ('{"score": -3}', "json", Unparsed(reason="out_of_range")),
        ('{"score": 3.5}', "json", Unparsed(reason="unknown_answer")),
        ('{"score": "good"}', "json", Unparsed(reason="unknown_answer")),
        ('{"score": 1e400}', "json", Unparsed(reason="unknown_answer")),
        ('{"score": NaN}', "json", Unparsed(reason="not_json")),
        ("<SCORE>3</SCORE><SCORE>4</SCORE>", "tag", Unparsed(reason="two_answers")),
    ],
)
def test_a_grade_is_a_step_of_the_scale_or_unparsed_and_never_zero(
    content: str, answer: Answer, expected: Grade | Unparsed
) -> None:
    assert grade(content, answer) == expected
