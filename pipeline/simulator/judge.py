"""The model behind every wire: judges texts by their hidden qualities and writes some of its own, always the same way.

What it says depends on the seed, the model's name, its reasoning effort and the prompt alone: every send of a
request, live or in a batch, gets the same answer. So does a repeat, as from a model at temperature 0. How the judge is
asked and how its reply is wrapped is up to the wire modules.
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
from pipeline.simulator.prompts import Question, Rated, Spelling, read_form, read_question, read_rated, read_spelling
from pipeline.simulator.settings import SimulatorSettings
from pipeline.simulator.structured import allows, fill
from pipeline.simulator.texts import filled_in, hidden_quality, prose, written

Stop = Literal["stop", "length", "refusal", "filter", "failed"]
THINKING_TOKENS = {
    "none": 0, "minimal": 16, "low": 48, "medium": 96, "high": 192, "xhigh": 384, "max": 768,
}  # fmt: skip
_OTHER: dict[Outcome, Outcome] = {"first": "second", "second": "first", "tie": "first"}
_STOPS: dict[str, Stop] = {
    "answer.refusal": "refusal", "answer.length": "length", "answer.filter": "filter", "answer.failed": "failed",
}  # fmt: skip
_STANDARD_NORMAL = NormalDist()
_SPREAD = 0.25  # how much the quality of one model's texts varies


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
        """Return the hidden quality of a text: given, written into it by a model here, or as its bytes will have it."""
        known = self._settings.qualities.get(text)
        known = hidden_quality(text) if known is None else known
        return _quality_of(digest(_utf8(text))) if known is None else known

    def skill(self, model: str) -> float:
        """Return how good the texts are that a model writes, on average."""
        known = self._settings.skills.get(model)
        return _quality_of(digest(model.encode())) if known is None else known

    def chance(self, first: str, second: str) -> float:
        """Return how probable it is that `first` is preferred when it stands first and no tie is drawn."""
        logit = self._settings.sharpness * (self.quality(first) - self.quality(second)) + self._settings.bias
        return _logistic(logit)

    def reply(self, ask: Ask, twist: str | None = None) -> Reply:
        """Return the model's reply; `twist` is the line fault that spoils it, if one does."""
        draw = self._draw(ask)
        rated = read_rated(ask.prompt)
        if rated is not None:
            text = _spoiled(self._rating(ask, rated, draw), None, twist, draw)
            return _counted(ask, text, _STOPS.get(twist or "", "stop"), draw)
        question = read_question(ask.prompt, self._known)
        if question is None and ask.schema is None:
            text = _spoiled(self._writing(ask, draw), None, twist, draw)
            return _counted(ask, text, _STOPS.get(twist or "", "stop"), draw)
        spelling = read_spelling(question.around) if question else None
        outcome = self._outcome(ask, question, spelling, draw)
        if outcome is not None and twist == "output.differing":
            outcome = _OTHER[outcome]
        abstains = self._abstains(ask, spelling, draw)
        outcome = None if abstains else outcome
        text = _spoiled(_answer(ask, spelling, "n/a" if abstains else outcome, draw), spelling, twist, draw)
        reply = _counted(ask, text, _STOPS.get(twist or "", "stop"), draw)
        if question is None:
            return reply
        first, second = digest(_utf8(question.first)), digest(_utf8(question.second))
        return msgspec.structs.replace(reply, first=first, second=second, outcome=outcome)

    def _rating(self, ask: Ask, rated: Rated, draw: int) -> str:
        """Return what the model says about one text, in the form that was asked for."""
        noise = _STANDARD_NORMAL.inv_cdf((draw % 2**52 + 0.5) / 2**52) / 2
        impression = _logistic(self._settings.sharpness * self.quality(rated.text) + noise)
        if ask.schema is not None:
            return msgspec.json.encode(fill(ask.schema, None, draw, prose(draw), impression)).decode()
        return filled_in(read_form(rated.around), impression, prose(draw))

    def _writing(self, ask: Ask, draw: int) -> str:
        """Return a text of the model's own, about as good as the model is."""
        noise = _STANDARD_NORMAL.inv_cdf((draw % 2**52 + 0.5) / 2**52) * _SPREAD
        return written(prose(draw), self.skill(ask.model) + noise)

    def _draw(self, ask: Ask) -> int:
        made = hashlib.blake2b(f"{self._settings.seed}\0{ask.model}\0{ask.effort}\0".encode(), digest_size=16)
        made.update(_utf8(ask.prompt))
        return int.from_bytes(made.digest())

    def _abstains(self, ask: Ask, spelling: Spelling | None, draw: int) -> bool:
        may = spelling is not None and (spelling.abstains if ask.schema is None else allows(ask.schema, "n/a"))
        return may and (draw >> 32) % 2**32 / 2**32 < self._settings.abstain_rate

    def _outcome(self, ask: Ask, question: Question | None, spelling: Spelling | None, draw: int) -> Outcome | None:
        if question is None or spelling is None:
            return None
        may_tie = spelling.ties if ask.schema is None else allows(ask.schema, "tie")
        if may_tie and (draw >> 64) / 2**64 < self._settings.tie_rate:
            return "tie"
        return "first" if (draw % 2**64) / 2**64 < self.chance(question.first, question.second) else "second"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quality_of(text_digest: str) -> float:
    return _STANDARD_NORMAL.inv_cdf((int(text_digest[:13], 16) + 0.5) / 2**52)


def _logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, logit))))


def _answer(ask: Ask, spelling: Spelling | None, outcome: Outcome | Literal["n/a"] | None, draw: int) -> str:
    if ask.schema is not None:
        return msgspec.json.encode(fill(ask.schema, outcome, draw, prose(draw))).decode()
    if spelling is None or outcome is None:
        return prose(draw)
    word = {"first": "SAMPLE_1", "second": "SAMPLE_2", "tie": "TIE", "n/a": "N/A"}[outcome]
    said = "" if ask.effort == "none" else "Both were read with care; one convinces more.\n\n"
    return f"{said}{spelling.prefix}{word}{spelling.suffix}"


def _rambling(draw: int) -> str:
    """Return eight kilobytes that compress about as well as prose does."""
    return hashlib.shake_128(draw.to_bytes(16)).hexdigest(2048) * 2


def _spoiled(text: str, spelling: Spelling | None, twist: str | None, draw: int) -> str:
    """Return the text as an odd or unhelpful model would have written it."""
    match twist:
        case "answer.unparseable":
            return "It depends on what one is looking for."
        case "answer.both":
            prefix, suffix = (spelling.prefix, spelling.suffix) if spelling else ("", "")
            return f"{prefix}SAMPLE_1{suffix} {prefix}SAMPLE_2{suffix}"
        case "answer.u2028":
            return f"One line,\u2028another,\u2029a third,\u0085and\n{text}"
        case "answer.long":
            return f"{_rambling(draw)}\n\n{text}"
        case "answer.empty":
            return ""
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
