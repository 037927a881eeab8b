"""What OpenAI's models accept: which reasoning levels each knows, and which parameters go with them.

As its documentation says of each; models that are not listed here accept everything.
"""

import re

import msgspec

from pipeline.simulator.documents import JsonObject
from pipeline.simulator.wires._speaking import Problem
from pipeline.simulator.wires.openai.speaking import invalid

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_MIDDLE = ("low", "medium", "high")
_SAMPLING = ("temperature", "top_p", "top_logprobs", "logprobs")


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The reasoning levels of a model, none for one that does not reason, and which is its default."""

    efforts: tuple[str, ...]
    default: str


_SHEET = (
    (r"gpt-6-astra|gpt-6\.1-sol", Reasoning(efforts=(*_MIDDLE, "xhigh", "max"), default="medium")),
    (r"gpt-6-(sol|luna)", Reasoning(efforts=("none", *_MIDDLE, "xhigh", "max"), default="medium")),
    (r"gpt-5\.6.*", Reasoning(efforts=("none", *_MIDDLE, "xhigh", "max"), default="none")),
    (r"gpt-5\.[24].*", Reasoning(efforts=("none", *_MIDDLE, "xhigh"), default="none")),
    (r"gpt-5\.1.*", Reasoning(efforts=("none", *_MIDDLE), default="none")),
    (r"gpt-5(-mini|-nano)?", Reasoning(efforts=("minimal", *_MIDDLE), default="medium")),
    (r"gpt-4.*", Reasoning(efforts=(), default="none")),
)
_SHEET_OF = tuple((re.compile(rf"(?:{pattern})(?:-\d{{4}}-\d\d-\d\d)?"), known) for pattern, known in _SHEET)
MODELS = ("gpt-6-astra", "gpt-6.1-sol", "gpt-6-sol", "gpt-6-luna", "gpt-5.4", "gpt-5.2", "gpt-5.1", "gpt-5-mini")


def reasoning_of(model: str) -> Reasoning | None:
    """Return what is known about the model's reasoning, None if nothing is."""
    return next((known for pattern, known in _SHEET_OF if pattern.fullmatch(model)), None)


def effort_of(model: str, asked: object) -> str:
    """Return the level a request runs at."""
    if isinstance(asked, str):
        return asked
    known = reasoning_of(model)
    return known.default if known else "none"


def effort_problem(model: str, asked: object, param: str) -> Problem | None:
    """Return why the model refuses this level, if it does."""
    if asked is None:
        return None
    if asked not in EFFORTS:
        return invalid(param, f"Invalid value: '{asked}'. Supported values are: {', '.join(EFFORTS)}.")
    known = reasoning_of(model)
    if known is None or asked in known.efforts:
        return None
    if not known.efforts:
        return _unsupported(param)
    message = (
        f"Unsupported value: '{asked}' is not supported with the '{model}' model. "
        f"Supported values are: {', '.join(known.efforts)}."
    )
    return invalid(param, message, "unsupported_value")


def parameter_problem(body: JsonObject, effort: str) -> Problem | None:
    """Return which parameter the model refuses at this level, if one."""
    known = reasoning_of(body["model"])
    if known is None:
        return None
    refused: list[str] = []
    if known.efforts:
        refused += ["max_tokens", "stop"]
    if effort != "none":
        refused += _SAMPLING
    return next((_unsupported(name) for name in refused if body.get(name) is not None), None)


def _unsupported(param: str) -> Problem:
    hint = " Use 'max_completion_tokens' instead." if param == "max_tokens" else ""
    message = f"Unsupported parameter: '{param}' is not supported with this model.{hint}"
    return invalid(param, message, "unsupported_parameter")


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def schema_problem(given: JsonObject, param: str) -> Problem | None:
    """Return why a wish for structured output (`name`, `schema`, `strict`) is refused, if it is."""
    name, schema = given.get("name"), given.get("schema")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return invalid(f"{param}.name", "Invalid name: 1 to 64 letters, digits, '_' and '-' are allowed.")
    if not isinstance(schema, dict):
        return invalid(f"{param}.schema", "Missing schema: a JSON schema of type object is needed.")
    return _strict_problem(schema, param, name) if given.get("strict") else None


def _strict_problem(schema: JsonObject, param: str, name: str) -> Problem | None:
    fields = schema.get("properties", {})
    said = f"Invalid schema for response_format '{name}': "
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        message = f"{said}'additionalProperties' is required to be supplied and to be false."
        return invalid(param, message, "invalid_json_schema")
    if schema.get("type") == "object" and set(schema.get("required", ())) != set(fields):
        message = f"{said}'required' is required to be supplied and to include every key in properties."
        return invalid(param, message, "invalid_json_schema")
    inner = (part for part in fields.values() if isinstance(part, dict))
    return next((problem for part in inner if (problem := _strict_problem(part, param, name))), None)
