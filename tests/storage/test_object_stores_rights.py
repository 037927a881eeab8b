"""Studies with no more rights than needed, and what those see who may only read."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.cli import run as pairlog
from pipeline.errors import StoreError
from pipeline.notebook import open_study
from pipeline.operations.studies.opening import freeze, open_runs
from pipeline.operations.studies.plans import plan
from pipeline.storage.s3 import S3Store
from tests.conftest import ExperimentFile, Simulate
from tests.flows.studies import check_against_ledger, finished, problems, rows
from tests.storage.proxy import Call, Proxy
from tests.storage.servers import READER, WORKER, S3Server
from tests.storage.studying import WorkerOn, keys_of, proven

POLICIES = Path(__file__).parents[2] / "infra" / "policies"


def a_policy(name: str, store: S3Store) -> list[dict[str, object]]:
    bucket, _, prefix = store.url.removeprefix("s3://").partition("/")
    text = (POLICIES / name).read_text().replace("BUCKET", bucket).replace("PREFIX", prefix)
    statements: list[dict[str, object]] = json.loads(text)["Statement"]
    return statements


def _all_of(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value)  # type: ignore[call-overload] # JSON: text or a list


def _action(call: Call) -> str:
    """Return the permission that AWS asks for this request."""
    match call.method:
        case "GET" if call.kind == "LIST":
            return "s3:ListBucket"
        case "GET" if "uploads" in call.query:
            return "s3:ListBucketMultipartUploads"
        case "GET" | "HEAD":
            return "s3:GetObject"
        case "DELETE":
            return "s3:AbortMultipartUpload" if "uploadId" in call.query else "s3:DeleteObject"
        case _:
            return "s3:PutObject"


def _denied_by(statements: list[dict[str, object]]) -> Callable[[Call], bool]:
    """Return whether the bucket's policy forbids a call, as AWS would decide."""

    def denied(call: Call) -> bool:
        resource = f"arn:aws:s3:::{call.path.removeprefix('/')}"
        return any(
            _action(call) in _all_of(statement["Action"])
            and any(resource.startswith(each.removesuffix("*")) for each in _all_of(statement["Resource"]))
            and ("Condition" not in statement or "if-none-match" not in call.headers)
            for statement in statements
        )

    return denied


def test_a_study_needs_no_right_to_delete_or_overwrite_the_log(
    s3_proxy: Proxy, s3_store: S3Store, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    store = proven(S3Store(s3_store.url, client=s3_proxy.s3_client))
    denied = _denied_by(a_policy("s3-bucket.json", s3_store))
    s3_proxy.spoil(denied, (403, b"<Error><Code>AccessDenied</Code></Error>"), 1000)
    simulator = simulate()
    worker = worker_on(store, simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 5}"))
    assert not any(map(denied, s3_proxy.calls))
    allowed = {action for each in a_policy("s3-worker-role.json", s3_store) for action in _all_of(each["Action"])}
    assert {_action(call) for call in s3_proxy.calls} <= allowed
    check_against_ledger(worker, simulator.ledger)

    log = s3_store.list_from("log")
    for forbidden in ("delete_object", "put_object"):
        with pytest.raises(PermissionError):
            s3_proxy.s3_client.send(forbidden, Key=s3_store._place.name(log[0]))  # type: ignore[union-attr] # it is set


def test_a_server_that_denies_deletion_lets_a_study_pass(
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    statements = [each for each in a_policy("s3-bucket.json", s3_store) if "Condition" not in each]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements})
    s3_store._client.send("put_bucket_policy", Policy=policy)
    try:
        for name, value in s3_environment.environment(WORKER).items():
            monkeypatch.setenv(name, value)
        store, simulator = S3Store(s3_store.url), simulate()
        worker = worker_on(proven(store), simulator)
        finished(worker, experiment_file(more="batch: {max_requests: 5}"))
        check_against_ledger(worker, simulator.ledger)
        commit = s3_store._place.name(s3_store.list_from("log")[0])
        with pytest.raises(PermissionError):
            store._client.send("delete_object", Key=commit)
        with pytest.raises(PermissionError):
            s3_store._client.send("delete_object", Key=commit)
    finally:
        s3_store._client.send("delete_bucket_policy")


def test_a_log_that_cannot_be_written_sends_nothing_and_names_the_object(
    s3_proxy: Proxy, s3_store: S3Store, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    store = proven(S3Store(s3_store.url, client=s3_proxy.s3_client))
    simulator, file = simulate(), experiment_file(more="batch: {max_requests: 5}")
    planned, opener = plan(str(file)), worker_on(store, simulator)
    open_runs(opener, planned, experiment_digest=freeze(opener, planned))
    s3_proxy.spoil(
        lambda call: call.method == "PUT" and "/log/" in call.path,
        (403, b"<Error><Code>AccessDenied</Code></Error>"),
        1000,
    )
    with pytest.raises(StoreError, match=r"cannot create log/.*not permitted"):
        finished(worker_on(store, simulator), file)
    assert (simulator.ledger.creates, simulator.ledger.files) == ([], [])
    s3_proxy.forget()
    worker = worker_on(store, simulator)
    assert not finished(worker, file).is_open
    check_against_ledger(worker, simulator.ledger)


def test_who_may_only_read_sees_everything_and_sends_nothing(
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    simulator = simulate()
    finished(worker_on(proven(s3_store), simulator), experiment_file())
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    reader = worker_on(S3Store(s3_store.url), simulator)
    assert rows(reader).num_rows == 15
    assert problems(reader) == []
    assert asyncio.run(_in_a_notebook(s3_store.url)) == ("15 requests: 15 ok", rows(reader))
    made = len(simulator.ledger.creates)
    with pytest.raises(StoreError, match="not permitted"):
        finished(reader, experiment_file(name="more"))
    assert len(simulator.ledger.creates) == made


@pytest.mark.parametrize("more", ["", "task: generation"])
def test_who_may_only_read_can_have_a_report(
    more: str,
    s3_environment: S3Server,
    s3_store: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
    tmp_path: Path,
) -> None:
    finished(worker_on(proven(s3_store), simulate()), experiment_file(more=more))
    for name, value in s3_environment.environment(READER).items():
        monkeypatch.setenv(name, value)
    before, page = keys_of(s3_store), tmp_path / "page.html"
    code = pairlog(["report", "essays", "--store", s3_store.url, "--out", str(page)])
    told = capsys.readouterr().err
    assert code == 0, told
    assert page.read_text().startswith("<!doctype html>")
    (refused,) = (line for line in told.splitlines() if line.startswith("not kept in the store: cannot create r"))
    assert "not permitted" in refused
    assert keys_of(s3_store) == before


async def _in_a_notebook(url: str) -> tuple[str, pa.Table]:
    """Read the study while a loop is running, as it always is in a notebook."""
    study = open_study("essays", store=url)
    return repr(study).splitlines()[1], study.rows()
