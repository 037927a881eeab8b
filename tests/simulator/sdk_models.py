"""What every SDK is asked about its own objects: whether they came as it declares them."""

import json
from typing import Any, TypeVar

Model = TypeVar("Model")


def strict(model: Model, keys: set[str] | None = None) -> Model:
    """Return the SDK's object if every field has exactly its declared type and, if told, no key is missing or new."""
    made: Any = model  # the SDKs' models have no class in common
    written = made.to_json(exclude_unset=True, exclude_none=False)
    assert keys is None or set(json.loads(written)) == keys
    type(made).model_validate_json(written, strict=True)
    return model
