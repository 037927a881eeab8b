"""Amazon's own library, unchanged, runs a Bedrock job on the simulator: objects in, a job, objects out."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from pipeline.simulator import Simulator
from tests.simulator.openai_wire import a_prompt, jsonl, rows

CLAUDE = "anthropic.claude-haiku-4-5-20251001-v1:0"
OTHER = "amazon.nova-lite-v1:0"


@pytest.fixture(scope="module")
def clients(simulator: Simulator) -> Iterator[dict[str, Any]]:
    session = boto3.session.Session(
        aws_access_key_id="AKIASIMULATED", aws_secret_access_key="simulated", region_name="us-east-1"
    )
    made = {name: session.client(name, endpoint_url=simulator.aws_endpoint_url) for name in ("bedrock", "s3")}
    yield made
    for client in made.values():
        client.close()


def a_record(record_id: str, model: str) -> dict[str, Any]:
    if model == CLAUDE:
        message = {"role": "user", "content": [{"type": "text", "text": a_prompt()}]}
        given = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 256, "messages": [message]}
    else:
        given = {"messages": [{"role": "user", "content": [{"text": a_prompt()}]}]}
    return {"recordId": record_id, "modelInput": given}


def created(clients: dict[str, Any], *records: dict[str, Any], model: str = CLAUDE, token: str) -> str:
    clients["s3"].put_object(Bucket="meadow", Key=f"in/{token}.jsonl", Body=jsonl(*records))
    return str(asked_again(clients, model=model, token=token))


def asked_again(clients: dict[str, Any], *, model: str = CLAUDE, token: str) -> str:
    answer = clients["bedrock"].create_model_invocation_job(
        jobName=token,
        clientRequestToken=token,
        roleArn="arn:aws:iam::123456789012:role/meadow",
        modelId=model,
        modelInvocationType="InvokeModel" if model == CLAUDE else "Converse",
        inputDataConfig={"s3InputDataConfig": {"s3Uri": f"s3://meadow/in/{token}.jsonl", "s3InputFormat": "JSONL"}},
        outputDataConfig={"s3OutputDataConfig": {"s3Uri": f"s3://meadow/out/{token}/"}},
        timeoutDurationInHours=24,
    )
    return str(answer["jobArn"])


def read(clients: dict[str, Any], token: str) -> list[dict[str, Any]]:
    listed = clients["s3"].list_objects_v2(Bucket="meadow", Prefix=f"out/{token}/")
    (key,) = [found["Key"] for found in listed["Contents"]]
    assert key.endswith(f"/{token}.jsonl.out")
    return rows(clients["s3"].get_object(Bucket="meadow", Key=key)["Body"].read())


@pytest.mark.parametrize("model", [CLAUDE, OTHER])
def test_a_whole_job_is_put_run_and_read(clients: dict[str, Any], model: str) -> None:
    token = f"whole-{'claude' if model == CLAUDE else 'other'}"
    other = a_record("bad", OTHER if model == CLAUDE else CLAUDE)
    arn = created(clients, a_record("a", model), a_record("b", model), other, model=model, token=token)
    job = clients["bedrock"].get_model_invocation_job(jobIdentifier=arn)
    counts = ("totalRecordCount", "processedRecordCount", "successRecordCount", "errorRecordCount")
    assert (job["status"], job["jobName"], job["clientRequestToken"]) == ("Completed", token, token)
    assert [job[name] for name in counts] == [3, 3, 2, 1]
    output = {row["recordId"]: row for row in read(clients, token)}
    assert output["bad"]["error"]["errorCode"] == 400
    for name in ("a", "b"):
        made = output[name]["modelOutput"]
        said = made["content"] if model == CLAUDE else made["output"]["message"]["content"]
        assert "<BETTER_SAMPLE>" in said[0]["text"]


def test_a_token_makes_one_job_of_any_number_of_calls(clients: dict[str, Any], simulator: Simulator) -> None:
    first = created(clients, a_record("a", CLAUDE), token="twice")
    before = len(simulator.ledger.batches)
    assert asked_again(clients, token="twice") == first
    assert len(simulator.ledger.batches) == before
    with pytest.raises(clients["bedrock"].exceptions.ConflictException):
        asked_again(clients, model=OTHER, token="twice")


def test_jobs_are_listed_by_name_and_stopped(clients: dict[str, Any]) -> None:
    arn = created(clients, a_record("a", CLAUDE), token="stopped-1")
    clients["bedrock"].stop_model_invocation_job(jobIdentifier=arn)
    listed = clients["bedrock"].list_model_invocation_jobs(nameContains="stopped-")
    assert [(job["jobArn"], job["status"]) for job in listed["invocationJobSummaries"]] == [(arn, "Stopped")]


def test_objects_are_listed_page_by_page(clients: dict[str, Any]) -> None:
    names = [f"paged/{number}" for number in range(5)]
    for name in names:
        clients["s3"].put_object(Bucket="meadow", Key=name, Body=b"x")
    paging = {"PageSize": 2}
    pages = list(
        clients["s3"]
        .get_paginator("list_objects_v2")
        .paginate(Bucket="meadow", Prefix="paged/", PaginationConfig=paging)
    )
    assert [[found["Key"] for found in page["Contents"]] for page in pages] == [names[:2], names[2:4], names[4:]]


def test_a_failed_job_says_why(clients: dict[str, Any]) -> None:
    arn = created(clients, {"recordId": "a"}, token="failed-1")
    job = clients["bedrock"].get_model_invocation_job(jobIdentifier=arn)
    assert job["status"] == "Failed"
    assert "line 1" in job["message"]


def test_refusals_become_the_errors_of_the_library(clients: dict[str, Any]) -> None:
    with pytest.raises(clients["bedrock"].exceptions.ResourceNotFoundException):
        clients["bedrock"].get_model_invocation_job(
            jobIdentifier="arn:aws:bedrock:us-east-1:123456789012:model-invocation-job/000000000000"
        )
    with pytest.raises(clients["s3"].exceptions.NoSuchKey):
        clients["s3"].get_object(Bucket="meadow", Key="nothing")
