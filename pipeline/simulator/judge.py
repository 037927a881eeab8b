"""The model behind every wire: judges two texts by their hidden qualities, always the same way.

What it says depends on the seed, the model's name and the prompt alone. How it is asked and how its reply is
wrapped is a matter of the wire modules.
"""

import hashlib
import math
from statistics import NormalDist
from typing import Literal

import msgspec

from pipeline.ids import digest
from pipeline.simulator.documents import JsonObject
from pipeline.simulator.known import KnownTexts
from pipeline.simulator.ledger import Outcome
from pipeline.simulator.prompts import Question, Spelling, read_question, read_spelling
from pipeline.simulator.settings import SimulatorSettings
from pipeline.simulator.structured import allows_tie, fill

Stop = Literal["stop", "length", "refusal", "filter", "failed"]
THINKING_TOKENS = {
    "none": 0, "minimal": 16, "low": 48, "medium": 96, "high": 192, "xhigh": 384, "max": 768,
}  # fmt: skip
_OTHER: dict[Outcome, Outcome] = {"first": "second", "second": "first", "tie": "first"}
_STOPS: dict[str, Stop] = {
    "answer.refusal": "refusal", "answer.length": "length", "answer.filter": "filter", "answer.failed": "failed",
}  # fmt: skip
_STANDARD_NORMAL = NormalDist()
_PROSE = ("harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "ribbon", "thicket")


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What one request asks of the model, whatever the wire."""

    model: str
    prompt: str
    schema: JsonObject | None = None
    effort: str = "none"
    max_output_tokens: int | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says, and what that costs; output includes reasoning, input includes cached."""

    text: str
    thoughts: str
    stop: Stop
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    first: str | None = None
    second: str | None = None
    outcome: Outcome | None = None


class Judge:
    """A judge whose true opinions are known."""

    def __init__(self, settings: SimulatorSettings) -> None:
        self._settings = settings
        self._known = KnownTexts(settings.qualities)

    def quality(self, text: str) -> float:
        """Return the hidden quality of a text; one that was not given follows from the text, normally spread."""
        known = self._settings.qualities.get(text)
        return _quality_of(digest(_utf8(text))) if known is None else known

    def chance(self, first: str, second: str) -> float:
        """Return how probable it is that `first` is preferred when it stands first and no tie is drawn."""
        logit = self._settings.sharpness * (self.quality(first) - self.quality(second)) + self._settings.bias
        return 1 / (1 + math.exp(-max(-700.0, min(700.0, logit))))

    def reply(self, ask: Ask, twist: str | None = None) -> Reply:
        """Return the model's reply; `twist` is the line fault that spoils it, if one does."""
        draw = self._draw(ask)
        question = read_question(ask.prompt, self._known)
        spelling = read_spelling(question.around) if question else None
        outcome = self._outcome(ask, question, spelling, draw)
        if outcome is not None and twist == "output.differing":
            outcome = _OTHER[outcome]
        text = _spoiled(_answer(ask, spelling, outcome, draw), spelling, twist)
        reply = _counted(ask, text, _STOPS.get(twist or "", "stop"), draw)
        if question is None:
            return reply
        first, second = digest(_utf8(question.first)), digest(_utf8(question.second))
        return msgspec.structs.replace(reply, first=first, second=second, outcome=outcome)

    def _draw(self, ask: Ask) -> int:
        made = hashlib.blake2b(f"{self._settings.seed}\0{ask.model}\0".encode(), digest_size=16)
        made.update(_utf8(ask.prompt))
        return int.from_bytes(made.digest())

    def _outcome(self, ask: Ask, question: Question | None, spelling: Spelling | None, draw: int) -> Outcome | None:
        if question is None or spelling is None:
            return None
        may_tie = spelling.ties if ask.schema is None else allows_tie(ask.schema)
        if may_tie and (draw >> 64) / 2**64 < self._settings.tie_rate:
            return "tie"
        return "first" if (draw % 2**64) / 2**64 < self.chance(question.first, question.second) else "second"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quality_of(text_digest: str) -> float:
    return _STANDARD_NORMAL.inv_cdf((int(text_digest[:13], 16) + 0.5) / 2**52)


def _prose(draw: int) -> str:
    words = " ".join(_PROSE[(draw >> (3 * at)) % len(_PROSE)] for at in range(8))
    return f"{words.capitalize()}."


def _answer(ask: Ask, spelling: Spelling | None, outcome: Outcome | None, draw: int) -> str:
    if ask.schema is not None:
        return msgspec.json.encode(fill(ask.schema, outcome, draw, _prose(draw))).decode()
    if spelling is None or outcome is None:
        return _prose(draw)
    word = {"first": "SAMPLE_1", "second": "SAMPLE_2", "tie": "TIE"}[outcome]
    said = "" if ask.effort == "none" else "Both were read with care; one convinces more.\n\n"
    return f"{said}{spelling.prefix}{word}{spelling.suffix}"


def _spoiled(text: str, spelling: Spelling | None, twist: str | None) -> str:
    """Return the text as an odd or unhelpful model would have written it."""
    match twist:
        case "answer.unparseable":
            return "It depends on what one is looking for."
        case "answer.both":
            prefix, suffix = (spelling.prefix, spelling.suffix) if spelling else ("", "")
            return f"{prefix}SAMPLE_1{suffix} {prefix}SAMPLE_2{suffix}"
        case "answer.u2028":
            return f"One line,\u2028another,\u2029a third,\u0085and\n{text}"
        case "answer.fenced":
            return f"```json\n{text}\n```"
        case "answer.refusal":
            return "That is not something the simulator will judge."
        case _:
            return text


def _tokens(text: str) -> int:
    return len(text) // 4 + 1


def _counted(ask: Ask, text: str, stop: Stop, draw: int) -> Reply:
    """Return the reply with its price; a reply that is longer than allowed is cut."""
    thinking = THINKING_TOKENS.get(ask.effort, 0)
    thinking += draw % (thinking // 4 + 1)
    limit = ask.max_output_tokens
    if stop == "length":
        text = "" if thinking else text[: len(text) // 2]
    elif limit is not None and thinking + _tokens(text) > limit:
        stop, thinking = "length", min(thinking, limit)
        text = text[: 4 * (limit - thinking - 1)] if limit > thinking else ""
    if stop in ("filter", "failed"):
        text, thinking = "", 0
    asked = _tokens(ask.prompt)
    return Reply(
        text=text,
        thoughts="" if thinking == 0 else "The two were weighed against one another.",
        stop=stop,
        input_tokens=asked,
        cached_tokens=asked // 2 // 128 * 128 if asked >= 1024 else 0,
        output_tokens=thinking + (_tokens(text) if text else 0),
        reasoning_tokens=thinking,
    )
