"""The words of a question: built-in templates, the check of a person's own, and the split at the placeholders.

A template is split once; values are put between the pieces and never searched, so that a sample which contains a
placeholder or a tag stays text. `str.format` is not used: a template is data, not a program.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from pipeline.domain import Answer, Tags, Template
from pipeline.errors import ConfigError
from pipeline.tasks.wording import WORDING, instruction
from pipeline.wording import remedy

Slot = Literal["SAMPLE_1", "SAMPLE_2", "SAMPLE", "TRAIT_NAME", "TRAIT_DESCRIPTION", "CONTEXT"]

PAIR: tuple[Slot, ...] = ("SAMPLE_1", "SAMPLE_2", "TRAIT_NAME", "TRAIT_DESCRIPTION", "CONTEXT")
JUDGED: tuple[Slot, ...] = ("SAMPLE", "TRAIT_NAME", "TRAIT_DESCRIPTION", "CONTEXT")
SORTED: tuple[Slot, ...] = ("SAMPLE", "CONTEXT")
SAID: tuple[Slot, ...] = ("SAMPLE",)

_SLOTS: dict[str, Slot] = {name: name for name in (*PAIR, *JUDGED)}
_PLACEHOLDER = re.compile(r"\{(" + "|".join((*_SLOTS, "ANSWER")) + r")\}")
_LIKE_A_PLACEHOLDER = re.compile(r"\{\s*([^\W\d]\w*)\s*([.\[:!][^{}]*)?\}")
_BLANK_LINES = re.compile(r"(\n(?:[ \t]*\n)+)")


class Fragments(msgspec.Struct, frozen=True, kw_only=True):
    """A template in pieces: `slots[i]` stands between `texts[i]` and `texts[i + 1]`."""

    texts: tuple[str, ...]
    slots: tuple[Slot, ...]


class CompiledTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """A template that was checked and split, once for pairs with a context and once for those without."""

    contextual: Fragments
    plain: Fragments

    def fragments(self, *, with_context: bool) -> Fragments:
        """Return the pieces for a pair that has a context, or has none."""
        return self.contextual if with_context else self.plain


def built_in(name: str, wording: Mapping[str, str] = WORDING) -> Template | None:
    """Return the built-in template of this name, by default of those for pairs, or None."""
    text = wording.get(name)
    return None if text is None else Template(name=name, text=text)


def check_template(template: Template, slots: Sequence[Slot] = PAIR) -> None:
    """Refuse a template that could not be filled with these placeholders; each sample must stand in it once.

    Raises:
        ConfigError: if a placeholder is missing, doubled or unknown, or would vanish with the context.

    """
    text = _lines(template.text)
    _refuse_unknown(template.name, text, (*slots, "ANSWER"))
    names = _PLACEHOLDER.findall(text)
    samples = [name for name in slots if name.startswith("SAMPLE")]
    for name in samples:
        if names.count(name) != 1:
            raise ConfigError(
                f"template {template.name}: {{{name}}} stands in it {names.count(name)} times; it must stand there once"
            )
    for paragraph in _BLANK_LINES.split(text):
        if "{CONTEXT}" in paragraph and any(f"{{{name}}}" in paragraph for name in samples):
            raise ConfigError(
                f"template {template.name}: {{CONTEXT}} shares a paragraph with a sample, but that paragraph is left "
                "out for pairs without a context; put a blank line between them"
            )


def compile_template(
    template: Template, *, answer: Answer, tags: Tags, ties: bool, abstain: bool = False
) -> CompiledTemplate:
    """Return the template for pairs split at its placeholders, with the instruction how to answer put in.

    Raises:
        ConfigError: as `check_template` does.

    """
    asked = instruction(answer=answer, tags=tags, ties=ties, abstain=abstain)
    return split_template(template, PAIR, asked=asked, shown=tags.prefix if answer == "tag" else None)


def split_template(
    template: Template, slots: Sequence[Slot], *, asked: str | None, shown: str | None = None
) -> CompiledTemplate:
    """Return the template split at these placeholders.

    Args:
        template: the words, checked here.
        slots: the placeholders it may hold.
        asked: how to answer, which becomes the last paragraph where {ANSWER} does not place it; None adds nothing.
        shown: what a template that explains the answer in its own words has in it; then nothing is added either.

    Raises:
        ConfigError: as `check_template` does.

    """
    check_template(template, slots)
    text = _lines(template.text)
    contextual, plain = text, _without_context(text)
    if asked is not None:
        contextual, plain = _asking(contextual, shown), _asking(plain, shown)
    return CompiledTemplate(contextual=_split(contextual, asked or ""), plain=_split(plain, asked or ""))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


def _refuse_unknown(name: str, text: str, placeholders: Sequence[str]) -> None:
    for match in _LIKE_A_PLACEHOLDER.finditer(text):
        word, rest = match[1], match[2] or ""
        if rest[:1] in {":", "!"} and word.upper() not in placeholders:
            continue  # {better: first} is an example of an answer
        if match[0] != f"{{{word}}}" or word not in placeholders:
            meant = re.sub("criterion", "TRAIT", word, flags=re.IGNORECASE)  # as the file calls it
            raise ConfigError(f"template {name}: {match[0][:60]} is not a placeholder; {remedy(meant, placeholders)}")
        if text.startswith("{{", max(match.start() - 1, 0)) and text.startswith("}", match.end()):
            raise ConfigError(f"template {name}: {{{match[0]}}} has two pairs of braces; write {match[0]}")


def _without_context(text: str) -> str:
    """Return the text without the paragraphs that hold {CONTEXT}, each with the blank lines after it."""
    parts = _BLANK_LINES.split(text)
    paragraphs, blanks = parts[0::2], [*parts[1::2], ""]
    kept = [pair for pair in zip(paragraphs, blanks, strict=True) if "{CONTEXT}" not in pair[0]]
    if "{CONTEXT}" in paragraphs[-1] and kept:
        kept[-1] = (kept[-1][0], "")
    return "".join(paragraph + blank for paragraph, blank in kept)


def _asking(text: str, shown: str | None) -> str:
    """Return the text, with {ANSWER} as its last paragraph if it does not say how to answer."""
    if "{ANSWER}" in text or (shown is not None and shown.casefold() in text.casefold()):
        return text
    return f"{text.rstrip()}\n\n{{ANSWER}}"


def _split(text: str, asked: str) -> Fragments:
    pieces = _PLACEHOLDER.split(text)
    texts, slots = [[pieces[0]]], list[Slot]()
    for name, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        if name == "ANSWER":
            texts[-1] += (asked, piece)
        else:
            slots.append(_SLOTS[name])
            texts.append([piece])
    return Fragments(texts=tuple("".join(parts) for parts in texts), slots=tuple(slots))
