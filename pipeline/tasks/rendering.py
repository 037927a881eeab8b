"""Request lines by joining bytes: each sample is escaped once, each template split once.

A line is the provider's frame around the template's words around one or two samples. What a sample contains, be it a
placeholder, a tag or JSON, stays text: nothing is searched or replaced after the split.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import QUESTION, Criterion, Frame, Limits, Message, RunConfig, gap
from pipeline.errors import ConfigError
from pipeline.ids import REQUEST_ID_LENGTH, Digests, PairIds, Places, RequestIds, SampleId, name_digests
from pipeline.pairing import Pairs, reverse_subset
from pipeline.planning import cut
from pipeline.samples import Samples
from pipeline.tasks import task_named
from pipeline.tasks.columns import Column, equally_long, strings
from pipeline.tasks.templates import CompiledTemplate, Slot
from pipeline.tasks.traits import criterion_of

Positions = NDArray[np.int64]
Pieces = NDArray[np.object_]  # of bytes: numpy moves references about faster than a loop does

SYSTEM = Message(role="system", text=gap("system"))
_LINES_AT_ONCE = 8192
_BLOCK = Limits(max_requests=_LINES_AT_ONCE, max_bytes=1 << 19)  # a larger one has new pages from the system each time
_ALL = slice(None)


class Escaped:
    """The texts of samples as they stand inside JSON strings: each is escaped once, all when the first is asked for."""

    def __init__(self, samples: Samples) -> None:
        self._samples: Samples | None = samples

    @cached_property
    def texts(self) -> Pieces:
        """Every text, in order; the samples are let go, so that no text is held twice."""
        assert self._samples is not None, "they are asked for once"
        samples, self._samples = self._samples, None
        return np.fromiter(map(escape, samples.each_text()), object, len(samples))


class Material(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The samples and pairs of an experiment, ready to be rendered for any of its runs."""

    pairs: Pairs
    ids: list[SampleId]
    escaped: Escaped
    contestants: list[str]
    groups: list[str | None]
    contexts: list[str | None]
    criteria: list[str | None]
    statements: list[str | None]
    turns: list[list[str] | None]

    @classmethod
    def of(cls, samples: Samples, pairs: Pairs) -> "Material":
        """Return the material of these samples and pairs."""
        return cls(
            pairs=pairs,
            ids=samples.ids(),
            escaped=Escaped(samples),
            contestants=samples.contestants(),
            groups=samples.groups(),
            contexts=samples.contexts(),
            criteria=samples.criteria(),
            statements=samples.statements(),
            turns=samples.turns(),
        )

    def check(self) -> None:
        """Refuse pairs that cannot be shown to a judge under one heading."""
        for name, values in (("context", self.contexts), ("criterion", self.criteria)):
            if any(value is not None for value in values):
                self._refuse_mixed(name, values)

    def _refuse_mixed(self, name: str, values: list[str | None]) -> None:
        for first, second in zip(self.pairs.first.tolist(), self.pairs.second.tolist(), strict=True):
            if values[first] != values[second]:
                raise ConfigError(
                    f"samples {self.ids[first]!r} and {self.ids[second]!r} form a pair but differ in their {name}; "
                    f"give them the same {name}, or different groups so that they never meet"
                )


Frames = Callable[[Sequence[Message]], Frame]


class Requests(Protocol):
    """The requests of one run, whatever they are about: what the engine needs to send them and to know them again."""

    def __len__(self) -> int:
        """Return how many there are, also those that can be asked only later."""
        ...

    @property
    def asked_at_once(self) -> int:
        """How many requests, the first ones, need no answer to an earlier one."""
        ...

    def names(self, positions: Positions) -> Column:
        """Return the names of what is asked about at these positions."""
        ...

    def request_ids(self, positions: Positions) -> Column:
        """Return the ids of the requests at these positions."""
        ...

    def sizes(self, positions: Positions) -> Positions:
        """Return how many bytes the lines at these positions have, their newlines included; 0: it cannot be asked."""
        ...

    def blocks(self, positions: Positions) -> Iterator[bytes]:
        """Yield the lines of the requests at these positions, many lines a block."""
        ...

    def line(self, position: int) -> bytes:
        """Return one request's line without its newline."""
        ...

    def following(self, start: int, stop: int) -> range:
        """Return the positions whose requests go on where those from `start` to `stop` end; mostly none."""
        ...


class _Words(msgspec.Struct, frozen=True, kw_only=True):
    """A line's constant bytes, and which of request id (0) and samples (1, 2) stands in each gap between."""

    texts: tuple[bytes, ...]
    order: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many bytes a line has besides its samples."""
        return sum(map(len, self.texts)) + REQUEST_ID_LENGTH * self.order.count(0)


class _Wording(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The words of every kind of line, and for each sample the kind of a line in which it stands first."""

    words: list[_Words]
    kinds: Positions


class Renderer:
    """Requests about pairs or single samples: `sides` are the samples of each request, in the order they are shown."""

    def __init__(self, config: RunConfig, material: Material, frames: Frames) -> None:
        self._material = material
        is_pair = task_named(config.task).SUBJECT == "pair"
        self.sides: tuple[Places, ...] = (np.arange(len(material.ids)),)
        if is_pair:
            self.sides = _sides(config, material.pairs)
        self._pair_ids = PairIds(material.ids) if is_pair else None
        self._request_ids = RequestIds(config.digest())
        wording = _wording(config, material, frames)
        self._kinds = wording.kinds
        self._order = wording.words[0].order if wording.words else ()
        width = len(self._order) + 1
        self._texts = np.array([each.texts for each in wording.words], object).reshape(-1, width)
        self._constant = np.array([each.size for each in wording.words], np.int64)

    def __len__(self) -> int:
        return len(self.sides[0])

    def names(self, positions: Positions) -> Column:
        """Return the names of the pairs at these positions, the same in both directions, or of the samples."""
        if self._pair_ids is None:
            return strings(self._material.ids).take(positions)
        first, second = self.sides
        return equally_long(self._pair_ids.encoded(first[positions], second[positions]))

    def request_ids(self, positions: Positions) -> Column:
        """Return the ids of the requests at these positions."""
        return equally_long(self._request_ids.encoded(positions, self._digests(positions)))

    def _digests(self, positions: Positions) -> Digests:
        """Return what stands for the names at these positions in their requests' ids."""
        if self._pair_ids is None:
            return name_digests(map(self._material.ids.__getitem__, positions.tolist()))
        first, second = self.sides
        return self._pair_ids.digests(first[positions], second[positions])

    @property
    def asked_at_once(self) -> int:
        """How many requests need no answer to an earlier one: all."""
        return len(self)

    def following(self, start: int, stop: int) -> range:  # noqa: ARG002 - one request, one answer
        """Return no positions: what is asked here is asked once."""
        return range(0)

    def sizes(self, positions: Positions | slice = _ALL) -> Positions:
        """Return how many bytes the lines at these positions have, their newlines included."""
        first, *second = (sizes[side[positions]] for sizes, side in zip(self._sizes, self.sides, strict=False))
        return sum(second, start=first)

    @cached_property
    def _sizes(self) -> tuple[Positions, Positions]:
        """How many bytes a line has with each sample in its first place, and each sample in its second."""
        lengths = np.fromiter(map(len, self._material.escaped.texts), np.int64, len(self._material.ids))
        return lengths + self._constant[self._kinds], lengths

    def blocks(self, positions: Positions) -> Iterator[bytes]:
        """Yield the lines of the requests at these positions, many lines a block."""
        for start in range(0, len(positions), _LINES_AT_ONCE):
            some = positions[start : start + _LINES_AT_ONCE]
            lines = self._lines(some)
            for block in cut(self.sizes(some), _BLOCK):
                yield b"".join(lines[block.start : block.start + block.requests].ravel().tolist())

    def line(self, position: int) -> bytes:
        """Return one request's line without its newline."""
        return b"".join(self._lines(np.array([position])).ravel().tolist()).removesuffix(b"\n")

    def _lines(self, positions: Positions) -> Pieces:
        """Return a row of pieces for each line: constant bytes, and between them request id and samples."""
        sides = [side[positions] for side in self.sides]
        values = (
            self._request_ids.encoded(positions, self._digests(positions)),
            *(self._material.escaped.texts[side] for side in sides),
        )
        lines = np.empty((len(positions), 2 * len(self._order) + 1), object)
        lines[:, ::2] = self._texts[self._kinds[sides[0]]]
        for place, value in enumerate(self._order):
            lines[:, 2 * place + 1] = values[value]
        return lines


def _wording(config: RunConfig, material: Material, frames: Frames) -> _Wording:
    """Return the constant bytes of the lines, of one kind for each heading that some sample has.

    A model that answers a prompt gets its context as the system prompt; a judge reads it in the question.
    """
    task = task_named(config.task)
    template, plain = task.compiled(config), frames(QUESTION)
    instructed = frames((SYSTEM, *QUESTION)) if task.SUBJECT == "prompt" and any(material.contexts) else plain
    headings = list(zip(material.contexts, material.criteria, strict=True))
    kinds = {heading: kind for kind, heading in enumerate(dict.fromkeys(headings))}
    words = [
        _joined(
            plain if context is None else instructed,
            template,
            context=context,
            criterion=criterion_of(own, config.criterion),
        )
        for context, own in kinds
    ]
    return _Wording(words=words, kinds=np.fromiter(map(kinds.__getitem__, headings), np.int64, len(headings)))


def _sides(config: RunConfig, pairs: Pairs) -> tuple[Places, Places]:
    """Return who is shown first and second: in all pairs, or in the part that the reverse direction repeats."""
    chosen = pairs
    if config.share != 1.0:
        some = reverse_subset(len(pairs), share=config.share, seed=config.seed)
        chosen = Pairs(first=pairs.first[some], second=pairs.second[some])
    sides = (chosen.first, chosen.second)
    return sides if config.direction == "forward" else sides[::-1]


def escape(text: str) -> bytes:
    """Return the text as it stands inside a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def _joined(frame: Frame, template: CompiledTemplate, *, context: str | None, criterion: Criterion) -> _Words:
    """Return frame and template as constant pieces around request id and samples."""
    values = {"CONTEXT": context or "", "TRAIT_NAME": criterion.name, "TRAIT_DESCRIPTION": criterion.description}
    prompt_texts, prompt_slots = _prompt(template, values, with_context=context is not None)
    texts, slots = [frame.texts[0]], []
    for slot, text in zip(frame.slots, frame.texts[1:], strict=True):
        if slot == "request_id":
            slots.append(0)
            texts.append(text)
        elif slot == "system":
            texts[-1] += escape(context or "") + text
        else:
            texts[-1] += prompt_texts[0]
            slots += prompt_slots
            texts += prompt_texts[1:]
            texts[-1] += text
    return _Words(texts=(*texts[:-1], texts[-1] + b"\n"), order=tuple(slots))


def _prompt(
    template: CompiledTemplate, values: Mapping[str, str], *, with_context: bool
) -> tuple[list[bytes], list[int]]:
    """Return the prompt's constant pieces and which sample (1 or 2) stands in each gap."""
    fragments = template.fragments(with_context=with_context)
    samples: dict[Slot, int] = {"SAMPLE": 1, "SAMPLE_1": 1, "SAMPLE_2": 2}
    texts, gaps = [escape(fragments.texts[0])], []
    for slot, text in zip(fragments.slots, fragments.texts[1:], strict=True):
        if slot in samples:
            gaps.append(samples[slot])
            texts.append(escape(text))
        else:
            texts[-1] += escape(values[slot]) + escape(text)
    return texts, gaps
