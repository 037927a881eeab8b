"""JSON as it comes and goes: the one place that says it has no narrower type."""

from typing import Any

JsonValue = Any  # whatever JSON can hold: msgspec decodes it, nothing here can know more
JsonObject = dict[str, Any]  # the same, known to be an object
