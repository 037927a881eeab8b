"""What Claude's models accept: how each family thinks, and which sampling parameters it takes.

As its documentation says of each; models that are not listed here accept everything.
"""

import re

import msgspec

from pipeline.simulator.documents import JsonObject

EFFORTS = ("low", "medium", "high", "xhigh", "max")
_BUDGETS = ((2_000, "low"), (8_000, "medium"), (16_000, "high"), (33_000, "xhigh"))


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """Which `thinking` a model takes, at which effort it thinks unless told, and whether it takes what else."""

    types: tuple[str, ...]
    default: str
    shows: bool = False
    effort: bool = True
    sampling: bool = False
    highest_off: str = "max"


_SHEET = (
    (r"claude-(fable|mythos)-5.*", Thinking(types=("adaptive",), default="high")),
    (r"claude-opus-5-5.*", Thinking(types=("adaptive",), default="medium")),
    (r"claude-sonnet-5-5.*", Thinking(types=("adaptive", "between_tools"), default="high", highest_off="high")),
    (r"claude-haiku-5-5.*", Thinking(types=("adaptive", "disabled"), default="medium")),
    (r"claude-opus-5(-\d{8})?", Thinking(types=("adaptive", "disabled"), default="high", highest_off="high")),
    (r"claude-sonnet-5(-\d{8})?", Thinking(types=("adaptive", "disabled"), default="high")),
    (r"claude-opus-4-[78].*", Thinking(types=("adaptive", "disabled"), default="none")),
    (
        r"claude-(opus|sonnet)-4-6.*",
        Thinking(types=("adaptive", "enabled", "disabled"), default="none", shows=True, sampling=True),
    ),
    (
        r"claude-opus-4-5.*",
        Thinking(types=("enabled", "disabled"), default="none", shows=True, sampling=True),
    ),
    (
        r"claude-(haiku|sonnet)-4-5.*",
        Thinking(types=("enabled", "disabled"), default="none", shows=True, effort=False, sampling=True),
    ),
)
_ANY = Thinking(types=("adaptive", "enabled", "disabled", "between_tools"), default="none", shows=True, sampling=True)


def thinking_of(model: str) -> Thinking:
    """Return what the model accepts."""
    return next((known for pattern, known in _SHEET if re.fullmatch(pattern, model)), _ANY)


def effort_of(params: JsonObject) -> str:
    """Return how hard a request lets the model think."""
    asked = params.get("thinking") or {}
    effort: str | None = (params.get("output_config") or {}).get("effort")
    kind = asked.get("type")
    if kind in ("disabled", "between_tools"):
        return "none"
    if kind == "enabled":
        return next((level for most, level in _BUDGETS if asked["budget_tokens"] <= most), "max")
    default = thinking_of(params["model"]).default
    if kind == "adaptive":
        return effort or ("high" if default == "none" else default)
    return "none" if default == "none" else effort or default


def shows_thoughts(params: JsonObject) -> bool:
    """Return whether thoughts come with their text."""
    asked = params.get("thinking") or {}
    if "display" in asked:
        return bool(asked["display"] == "summarized")
    return thinking_of(params["model"]).shows
