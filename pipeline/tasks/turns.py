"""Requests of a conversation: what was said so far, with the model's own answers, and what is said next.

Every turn of a sample's conversation is a request of its own. The first ones stand first; those of a later turn can be
rendered only when the answers to the turns before are there, and are never sent where one is missing.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Message, RunConfig, gap
from pipeline.errors import ConfigError
from pipeline.ids import RequestIds, name_digests
from pipeline.samples import Samples
from pipeline.tasks import Talks, task_named
from pipeline.tasks.columns import Column, equally_long, strings
from pipeline.tasks.options import options_of
from pipeline.tasks.rendering import SYSTEM, Frames, Material, Positions, escape

Answers = Callable[[Positions], Sequence[str | None]]

_LINES_A_BLOCK = 128


def spoken_turns(common: Sequence[str], samples: Samples) -> list[Sequence[str]]:
    """Return what is said to each sample after its answers: its own turns, or those of the experiment file.

    Raises:
        ConfigError: if nothing is said after any answer, or a sample's turns are not texts.

    """
    own_turns = samples.turns()
    if samples.has("turns") and all(own is None for own in own_turns):
        raise ConfigError(
            "the samples' column turns does not hold lists of texts; write lists (JSONL or Parquet), or rename it"
        )
    spoken: list[Sequence[str]] = [common if own is None else own for own in own_turns]
    for sample_id, turns in zip(samples.ids(), spoken, strict=True):
        if not all(turn and turn.strip() for turn in turns):
            raise ConfigError(f"the sample {sample_id!r} has an empty turn; write something, or leave it out")
    if not any(spoken):
        raise ConfigError(
            "a conversation needs turns: say in the file what follows each answer (turns: ['Are you sure?']), or give "
            "the samples a column turns that holds lists of texts (JSONL or Parquet)"
        )
    return spoken


class TurnRenderer:
    """The requests of one run of conversations; `answers` gives what the model wrote at earlier positions."""

    def __init__(self, config: RunConfig, material: Material, frames: Frames, answers: Answers) -> None:
        self._material = material
        task = task_named(config.task)
        assert isinstance(task, Talks), "a turn is the subject of a conversation"
        common = task.turns(options_of(config, task.Options))
        self._turns: list[Sequence[str]] = [common if own is None else own for own in material.turns]
        self._answers = answers
        self._frames = frames
        self._request_ids = RequestIds(config.digest())
        fragments = task.compiled(config).plain
        self._before, self._after = (escape(text) for text in fragments.texts)
        lasting = np.array([len(turns) for turns in self._turns], np.int64)
        self._members = [np.flatnonzero(lasting >= turn) for turn in range(int(lasting.max(initial=0)) + 1)]
        self._starts = np.cumsum([0, *map(len, self._members)])
        self.samples = np.concatenate(self._members)
        self.turn = np.repeat(np.arange(len(self._members)), np.diff(self._starts))

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def asked_at_once(self) -> int:
        """How many requests need no answer before."""
        return len(self._members[0])

    def names(self, positions: Positions) -> Column:
        """Return the names of the turns: their number, and the sample."""
        return strings(self._names(positions))

    def request_ids(self, positions: Positions) -> Column:
        """Return the ids of the requests at these positions."""
        return equally_long(self._encoded_ids(positions))

    def _encoded_ids(self, positions: Positions) -> NDArray[np.bytes_]:
        return self._request_ids.encoded(positions, name_digests(self._names(positions)))

    def _names(self, positions: Positions) -> list[str]:
        ids = self._material.ids
        pairs = zip(self.turn[positions].tolist(), self.samples[positions].tolist(), strict=True)
        return [f"{turn + 1}:{ids[sample]}" for turn, sample in pairs]

    def said(self, position: int) -> str:
        """Return what is said at this position: the sample's text first, then its turns."""
        sample, turn = int(self.samples[position]), int(self.turn[position])
        return self._turns[sample][turn - 1] if turn else msgspec.json.decode(b'"%b"' % self._opening(sample), type=str)

    def _opening(self, sample: int) -> bytes:
        text: bytes = self._material.escaped.texts[sample]
        return self._before + text + self._after

    def following(self, start: int, stop: int) -> range:
        """Return the positions of the next turn of the conversations from `start` to `stop`, all of one turn."""
        turn = int(self.turn[start]) + 1
        if turn == len(self._members):
            return range(0)
        members, offset = self._members[turn], int(self._starts[turn])
        first = int(np.searchsorted(members, self.samples[start]))
        last = int(np.searchsorted(members, self.samples[stop - 1], side="right"))
        return range(offset + first, offset + last)

    def sizes(self, positions: Positions) -> Positions:
        """Return how many bytes the lines have; 0 where the conversation has ended without an answer."""
        return np.array([sum(map(len, pieces)) for pieces in self._pieces(positions)], np.int64)

    def blocks(self, positions: Positions) -> Iterator[bytes]:
        """Yield the lines of the requests at these positions, many lines a block."""
        for start in range(0, len(positions), _LINES_A_BLOCK):
            pieces = self._pieces(positions[start : start + _LINES_A_BLOCK])
            yield b"".join(piece for line in pieces for piece in line)

    def line(self, position: int) -> bytes:
        """Return one request's line without its newline; empty where the conversation has ended before."""
        (pieces,) = self._pieces(np.array([position]))
        return b"".join(pieces).removesuffix(b"\n")

    def _pieces(self, positions: Positions) -> Iterator[list[bytes]]:
        """Yield what each line is joined from, nothing where an answer is missing."""
        heard = self._heard(positions)
        ids = self._encoded_ids(positions).tolist()
        for at, position in enumerate(positions.tolist()):
            answers = [turn[at] for turn in heard[: int(self.turn[position])]]
            given = [answer for answer in answers if answer is not None]
            yield self._line(position, ids[at], given) if len(given) == len(answers) else []

    def _heard(self, positions: Positions) -> list[Sequence[str | None]]:
        """Return for each turn before the last of these what the model answered in it."""
        if not len(positions):
            return []
        samples, most = self.samples[positions], int(self.turn[positions].max())
        earlier = zip(self._starts.tolist(), self._members[:most], strict=False)
        return [self._answers(start + np.searchsorted(members, samples)) for start, members in earlier]

    def _line(self, position: int, request_id: bytes, answers: Sequence[str]) -> list[bytes]:
        sample, material = int(self.samples[position]), self._material
        context = material.contexts[sample]
        spoken = [self._opening(sample), *(escape(turn) for turn in self._turns[sample][: len(answers)])]
        values = {"request_id": request_id, "system": escape(context or "")}
        for turn, text in enumerate(spoken):
            values[f"said_{turn + 1}"] = text
            if turn < len(answers):
                values[f"heard_{turn + 1}"] = escape(answers[turn])
        frame = self._frames(_messages(len(answers), instructed=context is not None))
        pieces = [frame.texts[0]]
        for slot, text in zip(frame.slots, frame.texts[1:], strict=True):
            pieces += (values[slot], text)
        return [*pieces, b"\n"]


def _messages(answers: int, *, instructed: bool) -> tuple[Message, ...]:
    """Return the shape of a conversation in which so many answers were given and something is said again."""
    messages = [SYSTEM] if instructed else []
    for turn in range(1, answers + 1):
        messages += (
            Message(role="user", text=gap(f"said_{turn}")),
            Message(role="assistant", text=gap(f"heard_{turn}")),
        )
    return (*messages, Message(role="user", text=gap(f"said_{answers + 1}")))
