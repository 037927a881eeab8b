"""The requests of a run: how they are written for its provider, and how many fit into a batch."""

from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipeline import providers
from pipeline.domain import Experiment, Frame, Limits, Message, RunConfig
from pipeline.tasks import task_named
from pipeline.tasks.rendering import Frames, Material, Renderer, Requests
from pipeline.tasks.turns import Answers, TurnRenderer

Positions = NDArray[np.int64]

LIVE_LIMITS = Limits(max_requests=10_000, max_bytes=100_000_000)
_messages = msgspec.json.Decoder(list[Message])


def _nothing_heard(positions: Positions) -> list[str | None]:
    return [None] * len(positions)


def renderer(config: RunConfig, material: Material, answers: Answers = _nothing_heard) -> Requests:
    """Return the requests of a run; `answers` is what was answered at positions that later requests go on from."""
    judge = config.judge
    schema = task_named(config.task).json_schema(config) if judge.answer == "json" else None

    @cache
    def frames(messages: tuple[Message, ...]) -> Frame:
        if judge.mode == "live":
            body = providers.live_module(judge.provider).live_frame(judge, schema=schema, messages=messages)
            return _named(body)
        return providers.batch_module(judge.provider).frame(judge, schema=schema, messages=messages)

    return _renderer(config, material, frames, answers)


def spoken(config: RunConfig, material: Material, answers: Answers, position: int) -> list[Message]:
    """Return what is said to the model at a position, as texts; nothing if it cannot be asked yet."""
    line = _renderer(config, material, Frame.of, answers).line(position)
    return _messages.decode(line) if line else []


def _renderer(config: RunConfig, material: Material, frames: Frames, answers: Answers) -> Requests:
    if task_named(config.task).SUBJECT == "turn":
        return TurnRenderer(config, material, frames, answers)
    return Renderer(config, material, frames)


def limits_within(config: RunConfig, experiment: Experiment) -> Limits:
    """Return how much an experiment wants in one batch of this run, within what fits."""
    hard = limits_of(config)
    return Limits(
        max_requests=min(hard.max_requests, experiment.max_requests or hard.max_requests),
        max_bytes=min(hard.max_bytes, experiment.max_bytes or hard.max_bytes),
    )


def limits_of(config: RunConfig) -> Limits:
    """Return how much fits into one batch of this run; live ones are cut so that each can be watched."""
    return LIVE_LIMITS if config.judge.mode == "live" else providers.batch_module(config.judge.provider).LIMITS


def _named(body: Frame) -> Frame:
    """Return the line under which a live call's body is stored with our request id."""
    first, *rest = body.texts
    *middle, last = (b'","body":' + first, *rest)
    return Frame(texts=(b'{"request_id":"', *middle, last + b"}"), slots=("request_id", *body.slots))
