"""A big output from the provider to its rows on S3, in bounded memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pipeline.clock import SystemClock
from pipeline.operations.workers.worker import Worker
from pipeline.settings import Settings
from pipeline.simulator import Simulator, parse_faults
from pipeline.storage import keys
from pipeline.storage.probe import StoreMark
from pipeline.storage.s3 import S3Store
from tests.conftest import environment
from tests.flows.studies import counts
from tests.storage.servers import S3Server

REQUESTS = 25_000
MEASURED = """
import json, re, sys, time
from pathlib import Path
from pipeline.cli import run
begun = time.monotonic()
code = run(sys.argv[1:])
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text()).group(1)
print(json.dumps({"code": code, "peak": int(peak) * 1024, "seconds": time.monotonic() - begun}))
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_an_output_of_two_hundred_megabytes_becomes_rows_within_half_a_gibibyte(
    s3_server: S3Server,
    s3_store: S3Store,
    simulate: Callable[..., Simulator],
    experiment_file: Callable[..., Path],
    record_property: Callable[[str, object], None],
) -> None:
    s3_store.put_new(keys.STORE, msgspec.json.encode(StoreMark()))
    simulator = simulate(faults=parse_faults("answer.long"))
    file = experiment_file(samples=400, more=f"pairs: {{design: random, count: {REQUESTS}}}")
    env = {"PATH": os.environ["PATH"], **s3_server.environment(), **environment(simulator, PAIRLOG_STORE=s3_store.url)}
    told = {}
    for command in (["submit", str(file)], ["resume", "--interval", "0.5"]):
        done = subprocess.run([sys.executable, "-c", MEASURED, *command], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        told[command[0]] = json.loads(done.stdout)
        record_property(f"told: 200 MB on S3, {command[0]}: MiB at most", told[command[0]]["peak"] // 2**20)
        record_property(f"told: 200 MB on S3, {command[0]}: seconds", round(told[command[0]]["seconds"]))
    with Worker(s3_store, clock=SystemClock(), settings=Settings(environment(simulator))) as worker:
        (run,) = worker.runs(worker.experiment_names()[0])
        (batch,) = run.refresh().batches.values()
        assert sum(part.bytes for part in batch.parts) > 200_000_000
        assert counts(worker)["ok"] == REQUESTS == simulator.ledger.totals.requests
    assert {name: each["code"] for name, each in told.items()} == {"submit": 0, "resume": 0}
    assert max(each["peak"] for each in told.values()) < 512 * 2**20
