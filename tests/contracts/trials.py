"""How each provider is tried: a row of `ADAPTERS`, its recorded answers, and a simulator of its own.

The contracts run on every module that is found in `pipeline.providers`. A new provider adds its row (how a worker is
pointed at the simulator, and a model it knows) and its recorded answers in `tests/golden/<name>/`: `line.*.json` holds
a result line and the output it means, `live.*.json` the same of a live answer, `batch.*.json` an answer about a batch
and what it means.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pipeline import providers
from pipeline.clock import FixedClock, SystemClock
from pipeline.domain import Frame, Judge, Output
from pipeline.providers import BatchModule, ProbableProvider, Provider, RemoteBatch, Submission
from pipeline.settings import Settings
from pipeline.simulator import Simulator, SimulatorSettings, parse_faults

CANARY = "canary-0123456789abcdef"
GOLDEN = Path(__file__).parent.parent / "golden"
SCHEMA = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
    "required": ["better"],
    "additionalProperties": False,
}


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider is tried: a model, the environment of a worker, and where the simulator answers it.

    Not every provider has structured answers, batches that expire, answers of those, files for its input, results as
    one stream, and counts of them.
    """

    model: str
    offline: Mapping[str, str]
    environment: Callable[[Simulator], Mapping[str, str]]
    structured: bool = True
    expires: bool = True
    answers_expired: bool = True
    uploads: bool = True
    streams: bool = True
    counts: bool = True


def _google_cloud(**more: str) -> dict[str, str]:
    return {"GOOGLE_CLOUD_PROJECT": "meadow-815", "PAIRLOG_VERTEX_BUCKET": "gs://meadow/trial", **more}


def _aws(simulator: Simulator) -> dict[str, str]:
    return {"AWS_ENDPOINT_URL": simulator.aws_endpoint_url}


ADAPTERS: dict[str, Adapter] = {
    "openai": Adapter(
        model="gpt-6-luna",
        offline={"OPENAI_API_KEY": CANARY},
        environment=lambda simulator: {"OPENAI_BASE_URL": simulator.openai_base_url},
    ),
    "anthropic": Adapter(
        model="claude-haiku-5-5",
        offline={"ANTHROPIC_API_KEY": CANARY},
        environment=lambda simulator: {"ANTHROPIC_BASE_URL": simulator.anthropic_base_url},
        uploads=False,
    ),
    "gemini": Adapter(
        model="gemini-3.8-flash",
        offline={"GOOGLE_API_KEY": CANARY},
        environment=lambda simulator: {"GOOGLE_GEMINI_BASE_URL": simulator.gemini_base_url},
        answers_expired=False,
    ),
    "vertex": Adapter(
        model="gemini-3.8-flash",
        offline=_google_cloud(GOOGLE_VERTEX_BASE_URL="http://127.0.0.1:9", STORAGE_EMULATOR_HOST="http://127.0.0.1:9"),
        environment=lambda simulator: {
            "GOOGLE_VERTEX_BASE_URL": simulator.vertex_base_url,
            "STORAGE_EMULATOR_HOST": simulator.vertex_base_url,
        },
    ),
    "azure": Adapter(
        model="judges-batch",
        offline={"AZURE_OPENAI_API_KEY": CANARY, "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9"},
        environment=lambda simulator: {"AZURE_OPENAI_ENDPOINT": simulator.azure_endpoint},
    ),
    "bedrock": Adapter(
        model="anthropic.claude-haiku-4-5-20251001-v1:0",
        offline={
            "AWS_ACCESS_KEY_ID": CANARY,
            "AWS_SECRET_ACCESS_KEY": CANARY,
            "AWS_REGION": "us-east-1",
            "PAIRLOG_BEDROCK_BUCKET": "s3://meadow/trial",
            "PAIRLOG_BEDROCK_ROLE": "arn:aws:iam::123456789012:role/meadow",
        },
        environment=_aws,
        structured=False,
    ),
    "compatible": Adapter(
        model="Qwen/Qwen3-8B",
        offline={"PAIRLOG_COMPATIBLE_BASE_URL": "http://127.0.0.1:9", "PAIRLOG_COMPATIBLE_API_KEY": CANARY},
        environment=lambda simulator: {"PAIRLOG_COMPATIBLE_BASE_URL": simulator.compatible_base_url},
    ),
    "groq": Adapter(
        model="openai/gpt-oss-120b",
        offline={"GROQ_API_KEY": CANARY},
        environment=lambda simulator: {"GROQ_BASE_URL": simulator.groq_base_url},
    ),
    "mistral": Adapter(
        model="mistral-small-latest",
        offline={"MISTRAL_API_KEY": CANARY},
        environment=lambda simulator: {"MISTRAL_BASE_URL": simulator.mistral_base_url},
    ),
    "ollama": Adapter(
        model="qwen3:8b",
        offline={},
        environment=lambda simulator: {"OLLAMA_HOST": simulator.ollama_host},
    ),
    "together": Adapter(
        model="openai/gpt-oss-120b",
        offline={"TOGETHER_API_KEY": CANARY},
        environment=lambda simulator: {"TOGETHER_BASE_URL": simulator.together_base_url},
        counts=False,
    ),
    "xai": Adapter(
        model="grok-4.3",
        offline={"XAI_API_KEY": CANARY},
        environment=lambda simulator: {"XAI_BASE_URL": simulator.xai_base_url},
        expires=False,
        streams=False,
    ),
}
NAMES = [name for name in providers.names() if name in ADAPTERS]
BATCH = [name for name in NAMES if "batch" in providers.module(name).MODES]
LIVE = [name for name in NAMES if "live" in providers.module(name).MODES]


def _is_exact(name: str) -> bool:
    """Whether the provider shows our key, so that an uncertain create is found for certain."""
    transport = httpx.MockTransport(lambda _: httpx.Response(500))
    settings, clock = Settings(ADAPTERS[name].offline), FixedClock(datetime(2026, 11, 16, tzinfo=UTC))
    with contextlib.closing(providers.batch_module(name).build(settings, clock, transport=transport)) as provider:
        return not isinstance(provider, ProbableProvider)


EXACT = [name for name in BATCH if _is_exact(name)]


def golden(kind: str) -> list[Any]:
    files = [file for name in NAMES for file in sorted((GOLDEN / name).glob(f"{kind}.*.json"))]
    return [
        pytest.param(file.parent.name, json.loads(file.read_text("utf-8")), id=f"{file.parent.name}-{file.stem}")
        for file in files
    ]


def a_judge(name: str, **more: Any) -> Judge:
    return Judge(provider=name, model=ADAPTERS[name].model, **more)


def filled(frame: Frame, *, request_id: str, prompt: str) -> bytes:
    """The frame with its gaps filled, as the renderer does it."""
    gaps = {"request_id": request_id, "prompt": prompt}
    pieces = [frame.texts[0]]
    for slot, text in zip(frame.slots, frame.texts[1:], strict=True):
        pieces += [msgspec.json.encode(gaps[slot])[1:-1], text]
    return b"".join(pieces)


def a_prompt(number: int) -> str:
    return (
        f"Which is better?\n<SAMPLE_1>\nText {number}.\n</SAMPLE_1>\n"
        f"<SAMPLE_2>\nAnother \u2028 {number}.\n</SAMPLE_2>\n"
        "Answer <BETTER_SAMPLE>SAMPLE_1</BETTER_SAMPLE> or <BETTER_SAMPLE>SAMPLE_2</BETTER_SAMPLE>."
    )


def a_submission(
    name: str,
    *,
    requests: int = 5,
    first: int = 0,
    key: str = "pl-00000000000000000000000000000001",
    judge: Judge | None = None,
) -> Submission:
    judge = judge or a_judge(name)
    frame = providers.batch_module(name).frame(judge, schema=SCHEMA if judge.answer == "json" else None)
    numbers = range(first, first + requests)
    lines = b"".join(filled(frame, request_id=f"r-{n:04}", prompt=a_prompt(n)) + b"\n" for n in numbers)
    return Submission(
        batch_key=key,
        labels={"run": "trial", "batch": "s000-1", "attempt": "1"},
        judge=judge,
        requests=requests,
        size=len(lines),
        chunks=lambda: iter((lines[: len(lines) // 3], lines[len(lines) // 3 :])),
    )


class Trial:
    """A provider on a simulator of its own."""

    def __init__(self, name: str, *, faults: str = "", clock: Any = None, **fields: Any) -> None:
        self.name = name
        self.module = providers.module(name)
        self.stack = contextlib.ExitStack()
        settings = SimulatorSettings(faults=parse_faults(faults), **fields)
        self.simulator = self.stack.enter_context(Simulator(settings, SystemClock()))
        adapter = ADAPTERS[name]
        self.environment = {**adapter.offline, **adapter.environment(self.simulator)}
        self.clock = clock or FixedClock(datetime.now(UTC))
        if isinstance(self.module, BatchModule):
            self.provider: Provider = self.module.build(Settings(self.environment), self.clock, transport=None)
            self.stack.callback(self.provider.close)

    def submit(self, submission: Submission) -> str:
        return self.provider.create(submission, file_id=self.provider.upload(submission))

    def ended(self, remote_id: str) -> RemoteBatch:
        for _ in range(50):
            batch = self.provider.status(remote_id)
            if batch.end is not None:
                return batch
        raise AssertionError(f"{self.name} never ended: {batch}")

    def fetched(self, batch: RemoteBatch) -> list[bytes]:
        parts = [b"".join(self.provider.download(handle)) for handle in batch.parts.values()]
        return [line for part in parts for line in part.split(b"\n") if line.strip()]

    def outputs(self, batch: RemoteBatch) -> dict[str, Output]:
        return {
            output.request_id: output for output in map(providers.batch_module(self.name).decode, self.fetched(batch))
        }

    def make_fail(self, faults: str) -> None:
        self.simulator.engine.faults.replace(parse_faults(faults))


def texts_of(value: Any) -> list[str]:
    """Every string of a JSON document."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts_of(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in texts_of(inner)]
    return [value] if isinstance(value, str) else []
