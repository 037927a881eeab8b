"""Request lines by joining bytes: each sample is escaped once, each template split once (design §7).

A line is the provider's frame around the template's words around two samples. What a sample contains, be it a
placeholder, a tag or JSON, stays text: nothing is searched or replaced after the split.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Criterion, Frame, RunConfig
from pipeline.errors import ConfigError
from pipeline.ids import PairId, RequestId, RequestIds, SampleId, pair_id
from pipeline.pairing import Pairs, reverse_subset
from pipeline.samples import Samples
from pipeline.tasks.templates import CompiledTemplate, Slot, compile_template
from pipeline.tasks.traits import criterion_of

Positions = NDArray[np.int64]

_LINES_A_BLOCK = 128


class Material(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The samples and pairs of an experiment, ready to be rendered for any of its runs."""

    pairs: Pairs
    ids: list[SampleId]
    escaped: list[bytes]
    contestants: list[str]
    groups: list[str | None]
    contexts: list[str | None]
    criteria: list[str | None]

    @classmethod
    def of(cls, samples: Samples, pairs: Pairs) -> "Material":
        """Return the material with each text escaped once."""
        return cls(
            pairs=pairs,
            ids=samples.ids(),
            escaped=[escape(text) for text in samples.texts()],
            contestants=samples.contestants(),
            groups=samples.groups(),
            contexts=samples.contexts(),
            criteria=samples.criteria(),
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


class _Words(msgspec.Struct, frozen=True, kw_only=True):
    """A line's constant bytes, and which of request id, first and second sample stands in each gap between."""

    texts: tuple[bytes, bytes, bytes, bytes]
    order: tuple[int, int, int]
    size: int


class Renderer:
    """The requests of one run: their ids, their sizes and their lines."""

    def __init__(self, config: RunConfig, material: Material, frame: Frame) -> None:
        self._config = config
        self._material = material
        self._frame = frame
        pairs = _run_pairs(config, material.pairs)
        forward = config.direction == "forward"
        self.first = pairs.first if forward else pairs.second
        self.second = pairs.second if forward else pairs.first
        self._ids = RequestIds(config.digest())
        judge = config.judge
        self._template = compile_template(config.template, answer=judge.answer, tags=config.tags, ties=config.ties)
        self._words: dict[tuple[str | None, str | None], _Words] = {}
        self._alike = not any(material.contexts) and not any(material.criteria)

    def __len__(self) -> int:
        return len(self.first)

    def pair_id(self, position: int) -> PairId:
        """Return the name of the pair at this position, the same in both directions."""
        ids = self._material.ids
        return pair_id(ids[self.first[position]], ids[self.second[position]])

    def request_id(self, position: int) -> RequestId:
        """Return the id of the request at this position."""
        return self._ids.of(self.pair_id(position))

    def sizes(self) -> Positions:
        """Return how many bytes each line has, its newline included."""
        escaped = self._material.escaped
        lengths = np.fromiter((len(text) for text in escaped), np.int64, len(escaped))
        sizes = lengths[self.first] + lengths[self.second]
        if self._alike:
            return sizes + self._words_at(0).size if len(self) else sizes
        return sizes + np.fromiter((self._words_at(at).size for at in range(len(self))), np.int64, len(self))

    def blocks(self, positions: Sequence[int] | Positions) -> Iterator[bytes]:
        """Yield the lines of the requests at these positions, many lines a block."""
        numbers = [int(position) for position in positions]
        for start in range(0, len(numbers), _LINES_A_BLOCK):
            parts: list[bytes] = []
            for position in numbers[start : start + _LINES_A_BLOCK]:
                parts += self._parts(position)
            yield b"".join(parts)

    def line(self, position: int) -> bytes:
        """Return one request's line without its newline."""
        return b"".join(self._parts(position)).removesuffix(b"\n")

    def _parts(self, position: int) -> tuple[bytes, ...]:
        words, escaped = self._words_at(position), self._material.escaped
        values = (
            self.request_id(position).encode(),
            escaped[self.first[position]],
            escaped[self.second[position]],
        )
        (t0, t1, t2, t3), (a, b, c) = words.texts, words.order
        return t0, values[a], t1, values[b], t2, values[c], t3

    def _words_at(self, position: int) -> _Words:
        sample = self.first[position]
        context, criterion = self._material.contexts[sample], self._material.criteria[sample]
        words = self._words.get((context, criterion))
        if words is None:
            words = self._words[context, criterion] = self._compiled(context, criterion)
        return words

    def _compiled(self, context: str | None, criterion: str | None) -> _Words:
        wanted = criterion_of(criterion, self._config.criterion)
        return _joined(self._frame, self._template, context=context, criterion=wanted)


def _run_pairs(config: RunConfig, pairs: Pairs) -> Pairs:
    """Return the pairs of this run: all of them, or the part that the reverse direction repeats."""
    if config.share == 1.0:
        return pairs
    chosen = reverse_subset(len(pairs), share=config.share, seed=config.seed)
    return Pairs(first=pairs.first[chosen], second=pairs.second[chosen])


def escape(text: str) -> bytes:
    """Return the text as it stands inside a JSON string."""
    return msgspec.json.encode(text)[1:-1]


def _joined(frame: Frame, template: CompiledTemplate, *, context: str | None, criterion: Criterion) -> _Words:
    """Return frame and template as four constant pieces around request id and samples."""
    values = {"CONTEXT": context or "", "TRAIT_NAME": criterion.name, "TRAIT_DESCRIPTION": criterion.description}
    prompt_texts, prompt_slots = _prompt(template, values, with_context=context is not None)
    texts, slots = [frame.texts[0]], []
    for slot, text in zip(frame.slots, frame.texts[1:], strict=True):
        if slot == "request_id":
            slots.append(0)
            texts.append(text)
        else:
            texts[-1] += prompt_texts[0]
            slots += prompt_slots
            texts += prompt_texts[1:]
            texts[-1] += text
    t0, t1, t2, t3 = (*texts[:-1], texts[-1] + b"\n")
    a, b, c = slots
    return _Words(texts=(t0, t1, t2, t3), order=(a, b, c), size=sum(map(len, (t0, t1, t2, t3))) + 32)


def _prompt(
    template: CompiledTemplate, values: Mapping[str, str], *, with_context: bool
) -> tuple[list[bytes], list[int]]:
    """Return the prompt's constant pieces and which sample (1 or 2) stands in each gap."""
    fragments = template.fragments(with_context=with_context)
    samples: dict[Slot, int] = {"SAMPLE_1": 1, "SAMPLE_2": 2}
    texts, gaps = [escape(fragments.texts[0])], []
    for slot, text in zip(fragments.slots, fragments.texts[1:], strict=True):
        if slot in samples:
            gaps.append(samples[slot])
            texts.append(escape(text))
        else:
            texts[-1] += escape(values[slot]) + escape(text)
    return texts, gaps
