"""Whole studies at each of these providers, on a simulator that loses answers and fails lines: complete, paid once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.operations.workers.worker import Worker
from pipeline.simulator import Simulator, parse_faults
from tests.flows.studies import check_against_ledger, column, counts, finished, rows

KEY = "canary-0123456789"
PATIENCE = {"PAIRLOG_QUIET_SECONDS": "0.2", "PAIRLOG_LEASE_SECONDS": "1", "PAIRLOG_PAUSE_SECONDS": "0.1"}
MODELS = {
    "azure": "judges-batch",
    "bedrock": "anthropic.claude-haiku-4-5-20251001-v1:0",
    "groq": "openai/gpt-oss-120b",
    "mistral": "mistral-small-latest",
    "together": "openai/gpt-oss-120b",
    "xai": "grok-4.3",
}


def environment(simulator: Simulator) -> dict[str, str]:
    return {
        **PATIENCE,
        "AZURE_OPENAI_API_KEY": KEY,
        "AZURE_OPENAI_ENDPOINT": simulator.azure_endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": simulator.aws_endpoint_url,
        "PAIRLOG_BEDROCK_BUCKET": "s3://meadow/trial",
        "PAIRLOG_BEDROCK_ROLE": "arn:aws:iam::123456789012:role/meadow",
        "GROQ_API_KEY": KEY,
        "GROQ_BASE_URL": simulator.groq_base_url,
        "MISTRAL_API_KEY": KEY,
        "MISTRAL_BASE_URL": simulator.mistral_base_url,
        "TOGETHER_API_KEY": KEY,
        "TOGETHER_BASE_URL": simulator.together_base_url,
        "XAI_API_KEY": KEY,
        "XAI_BASE_URL": simulator.xai_base_url,
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "faults",
    [
        "create.lost=1,line.500=0.2*1,output.shuffle",
        "create.dropped=1,output.missing=0.2*1,output.doubled=0.2*1",
        "create.429:0.1=1,create.lost=1,expire.share=0.4*1",
        "create.503_applied=1,run.token_limit=1,output.damaged=0.2*1",
    ],
)
def test_a_study_is_complete_and_paid_once(
    name: str,
    faults: str,
    simulate: Callable[..., Simulator],
    worker_for: Callable[..., Worker],
    experiment_file: Callable[..., Path],
) -> None:
    simulator = simulate(faults=parse_faults(faults))
    worker = worker_for(simulator, **environment(simulator))
    judges = f"[{{provider: {name}, model: '{MODELS[name]}'}}]"
    standing = finished(worker, experiment_file(judges=judges, more="attempts: 5"))
    assert not standing.is_open
    assert {name: count for name, count in counts(worker).items() if count} == {"planned": 15, "ok": 15}
    assert set(column(rows(worker), "provider")) == {name}
    check_against_ledger(worker, simulator.ledger)
