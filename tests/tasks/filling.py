"""The slow, obvious way to fill a template: what request building does with bytes must come to the same."""

from collections.abc import Mapping

from pipeline.tasks.templates import Fragments, Slot


def filled(fragments: Fragments, values: Mapping[Slot, str]) -> str:
    parts = [fragments.texts[0]]
    for slot, text in zip(fragments.slots, fragments.texts[1:], strict=True):
        parts += (values[slot], text)
    return "".join(parts)
