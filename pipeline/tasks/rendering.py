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
from pipeline.ids import REQUEST_ID_LENGTH, PairId, PairIds, RequestId, RequestIds, SampleId
from pipeline.pairing import Pairs, reverse_subset
from pipeline.samples import Samples
from pipeline.tasks.templates import CompiledTemplate, Slot, compile_template
from pipeline.tasks.traits import criterion_of

Positions = NDArray[np.int64]

_LINES_A_BLOCK = 128
_ALL = slice(None)


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
    """A line's constant bytes, and which of request id (0) and samples (1, 2) stands in each gap between."""

    texts: tuple[bytes, ...]
    order: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many bytes a line has besides its samples."""
        return sum(map(len, self.texts)) + REQUEST_ID_LENGTH * self.order.count(0)


class Renderer:
    """The requests of one run: their ids, their sizes and their lines."""

    def __init__(self, config: RunConfig, material: Material, frame: Frame) -> None:
        self._material = material
        pairs = _run_pairs(config, material.pairs)
        forward = config.direction == "forward"
        self.first = pairs.first if forward else pairs.second
        self.second = pairs.second if forward else pairs.first
        self._pair_ids = PairIds(material.ids)
        self._request_ids = RequestIds(config.digest())
        words = _words(config, material, frame)
        self._texts = list(zip(*(each.texts for each in words), strict=True))
        self._order = words[0].order if words else ()
        self._constant = np.array([each.size for each in words], np.int64)
        self._lengths = np.array([len(text) for text in material.escaped], np.int64)

    def __len__(self) -> int:
        return len(self.first)

    def pair_ids(self, positions: Positions) -> list[PairId]:
        """Return the names of the pairs at these positions, the same in both directions."""
        return self._pair_ids.of(self.first[positions].tolist(), self.second[positions].tolist())

    def request_ids(self, positions: Positions, pair_ids: Sequence[PairId] | None = None) -> list[RequestId]:
        """Return the ids of the requests at these positions; who has the names of their pairs hands them over."""
        return self._request_ids.of(positions.tolist(), pair_ids or self.pair_ids(positions))

    def sizes(self, positions: Positions | slice = _ALL) -> Positions:
        """Return how many bytes the lines at these positions have, their newlines included."""
        first, second = self.first[positions], self.second[positions]
        return self._constant[first] + self._lengths[first] + self._lengths[second]

    def blocks(self, positions: Positions) -> Iterator[bytes]:
        """Yield the lines of the requests at these positions, many lines a block."""
        for start in range(0, len(positions), _LINES_A_BLOCK):
            yield b"".join(self._pieces(positions[start : start + _LINES_A_BLOCK]))

    def line(self, position: int) -> bytes:
        """Return one request's line without its newline."""
        return b"".join(self._pieces(np.array([position]))).removesuffix(b"\n")

    def _pieces(self, positions: Positions) -> list[bytes]:
        """Return what the lines are joined from: by column, each put where it stands in every line."""
        first, second = self.first[positions].tolist(), self.second[positions].tolist()
        escaped = self._material.escaped
        values = (
            [request_id.encode() for request_id in self.request_ids(positions)],
            [escaped[sample] for sample in first],
            [escaped[sample] for sample in second],
        )
        width = len(self._texts) + len(self._order)
        pieces = [b""] * (width * len(first))
        for gap, texts in enumerate(self._texts):
            pieces[2 * gap :: width] = [texts[sample] for sample in first]
        for gap, value in enumerate(self._order):
            pieces[2 * gap + 1 :: width] = values[value]
        return pieces


def _words(config: RunConfig, material: Material, frame: Frame) -> list[_Words]:
    """Return for each sample the constant bytes of a line in which it stands first."""
    judge = config.judge
    template = compile_template(config.template, answer=judge.answer, tags=config.tags, ties=config.ties)
    headings = list(zip(material.contexts, material.criteria, strict=True))
    made = {
        (context, own): _joined(frame, template, context=context, criterion=criterion_of(own, config.criterion))
        for context, own in dict.fromkeys(headings)
    }
    return [made[heading] for heading in headings]


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
    """Return frame and template as constant pieces around request id and samples."""
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
    return _Words(texts=(*texts[:-1], texts[-1] + b"\n"), order=tuple(slots))


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
