"""Synthetic studies, the same from the same seed: essays of 2.5 kB, their pairs, and a judge's answers to them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.clock import SystemClock
from pipeline.domain import Limits
from pipeline.events import AttemptOpened, Ended, InputStored, OutputsStored, RawPart, Submitted
from pipeline.ids import Digest, ExperimentName
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.operations.workers.run import Run
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.state import BatchState
from pipeline.storage import Store, keys
from pipeline.storage.streams import Measured, compressed

NAME = ExperimentName("essays")
SAMPLES, LETTERS = 5_000, 2_500
SHARE_MISSING = 0.012
VOCABULARY = (
    "the of and a to in is that it for as with its on by this are from more which one two argument sentence reader "
    "clear evidence paragraph structure point conclusion essay style because however while both offers stronger weaker "
    "focused development examples transitions vocabulary grammar errors overall convincing thesis organisation fluent"
)
WORDS = VOCABULARY.split()
LINE = (
    b'{"id": "batch_req_%(number)d", "custom_id": "%(id)s", "response": {"status_code": 200, "request_id": '
    b'"req_%(number)032x", "body": {"id": "chatcmpl-%(number)d", "object": "chat.completion", "created": %(created)d, '
    b'"model": "gpt-6-luna-2026-05-01", "choices": [{"index": 0, "message": {"role": "assistant", "content": '
    b'"%(content)s", "refusal": null, "annotations": []}, "logprobs": null, "finish_reason": "stop"}], "usage": '
    b'{"prompt_tokens": %(prompt)d, "completion_tokens": %(completion)d, "total_tokens": 1650, '
    b'"prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0}, "completion_tokens_details": '
    b'{"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}}, '
    b'"service_tier": "default", "system_fingerprint": "fp_44709d6fcb"}}, "error": null}\n'
)
TAG = "<BETTER_SAMPLE>SAMPLE_%d</BETTER_SAMPLE>"


def prose(chance: random.Random, letters: int) -> str:
    """Return about so many letters of words, with a paragraph and a curly quote here and there."""
    words = chance.choices(WORDS, k=letters // 6)
    for at in range(40, len(words), 90):
        words[at] += ".\n\n"
        words[at - 20] = f"“{words[at - 20]}”"
    return " ".join(words)


def write_study(folder: Path, pairs: int) -> Path:
    """Write samples, fewer where there are few pairs, and an experiment file; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    samples = min(SAMPLES, max(50, pairs // 20))
    chance = random.Random(0)
    with (folder / "essays.jsonl").open("w", encoding="utf-8") as file:
        for number in range(samples):
            essay = {"id": f"essay-{number:05d}", "text": prose(chance, LETTERS), "contestant": f"model-{number % 50}"}
            file.write(json.dumps(essay) + "\n")
    study = folder / "essays.yaml"
    study.write_text(
        f"name: essays\nsamples: essays.jsonl\npairs: {{design: random, count: {pairs}, seed: 1}}\n"
        "judges: [{provider: openai, model: gpt-6-luna}]\n"
    )
    return study


def worker(store: Store, **environment: str) -> Worker:
    return Worker(store, clock=SystemClock(), settings=Settings({"OPENAI_API_KEY": "sk-bench", **environment}))


def opened_run(hand: Worker, study: Path) -> Run:
    """Freeze the study in the worker's store and plan its run."""
    planned = plan(str(study))
    return open_runs(hand, planned, experiment_digest=freeze(hand, planned))[0]


def answer_all(run: Run) -> None:
    """Bring every batch to where its outputs lie in the store, unread."""
    beginnings, ends = _halves()
    for batch in run.state.batches.values():
        key = keys.output(run.run_id, batch.batch_id, attempt=1, part="output", source="file")
        measured = Measured(_lines(run, batch, beginnings, ends))
        run.worker.store.put_stream(key, compressed(measured))
        _record(run, batch, RawPart(name="output", key=key, digest=measured.digest(), bytes=measured.size))


def _halves() -> tuple[list[bytes], list[bytes]]:
    """Return how 20,000 answers begin and how as many end: 1 in 125 without a tag, as many with two that differ."""
    chance = random.Random(2)
    beginnings: list[bytes] = []
    ends: list[bytes] = []
    for number in range(20_000):
        tag = TAG % chance.choice((1, 2))
        said = prose(chance, 425) + "\n\n" + ("" if number % 125 == 0 else tag)
        said += TAG % 1 + TAG % 2 if number % 125 == 1 else ""
        beginnings.append(json.dumps(prose(chance, 425) + " ")[1:-1].encode())
        ends.append(json.dumps(said)[1:-1].encode())
    return beginnings, ends


def _lines(run: Run, batch: BatchState, beginnings: list[bytes], ends: list[bytes]) -> Iterator[bytes]:
    """Yield the answers in shuffled order, hardly two of them alike, as judges write them; some requests have none."""
    chance = random.Random(batch.batch_id)
    ids = run.renderer.request_ids(run.members(batch)).to_pylist()
    chance.shuffle(ids)
    for number, name in enumerate(ids[: round(len(ids) * (1 - SHARE_MISSING))]):
        usage = {"prompt": 1_300 + number % 200, "completion": 200 + number % 100, "created": 1_790_000_000 + number}
        said = chance.choice(beginnings) + chance.choice(ends)
        yield LINE % {b"id": name.encode(), b"number": number, b"content": said, **_bytes(usage)}


def _bytes(named: dict[str, int]) -> dict[bytes, int]:
    return {name.encode(): value for name, value in named.items()}


def _record(run: Run, batch: BatchState, part: RawPart) -> None:
    name = batch.batch_id
    run.record(
        InputStored(batch_id=name, key="requests", digest=Digest("0"), bytes=1, requests=batch.requests),
        AttemptOpened(batch_id=name, attempt=1, batch_key=f"pl-{name}"),
        Submitted(batch_id=name, attempt=1, remote_id=f"batch_{name}"),
        Ended(batch_id=name, end="completed", status="completed"),
        OutputsStored(batch_id=name, attempt=1, parts=(part,)),
    )


def positions(run: Run) -> np.ndarray:
    return np.arange(len(run.renderer))


LIMITS = Limits(max_requests=50_000, max_bytes=200_000_000)
