"""What `infra/` says, as values: the compose file's services, filled in as compose would, and the other files."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

INFRA = Path(__file__).parents[2] / "infra"
SECRETS = {"POSTGRES_PASSWORD": "postgres-canary", "S3_ACCESS_KEY": "key-canary", "S3_SECRET_KEY": "secret-canary"}
_VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")

Document = dict[str, Any]  # YAML


def document(name: str) -> Document:
    loaded: Document = yaml.safe_load((INFRA / name).read_text(encoding="utf-8"))
    return loaded


def service(name: str) -> Document:
    found: Document = document("compose.yaml")["services"][name]
    return found


def filled(text: str, values: Mapping[str, str] = SECRETS) -> str:
    """Return the text with its variables replaced; where compose would fail for want of one, raise KeyError."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        return values.get(name, default) if kind == "-" else values[name]

    return _VARIABLE.sub(value, text)


def command(name: str, **replaced: str) -> list[str]:
    """Return what a service runs, with some options given other values: what is there cannot be what is here."""
    words = [filled(word) for word in service(name)["command"]]
    for option, value in replaced.items():
        words[words.index(f"--{option}") + 1] = value
    return words


def environment(name: str) -> dict[str, str]:
    return {key: filled(value) for key, value in service(name).get("environment", {}).items()}


def texts(found: object) -> Iterator[str]:
    """Return every text in a document, keys and values."""
    match found:
        case dict():
            for key, value in found.items():
                yield from texts(key)
                yield from texts(value)
        case list():
            for value in found:
                yield from texts(value)
        case str():
            yield found
