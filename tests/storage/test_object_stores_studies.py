"""Whole studies on object stores: on GCS, begun on one machine and finished on another, read by the usual readers."""

import os
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.fs
from s3fs import S3FileSystem

from pipeline.simulator import Simulator
from pipeline.storage import Store
from pipeline.storage.gcs import GcsStore
from pipeline.storage.s3 import S3Store
from tests.conftest import ExperimentFile, Simulate, environment
from tests.flows.studies import check_against_ledger, finished, rows
from tests.storage.servers import S3Server
from tests.storage.studying import WorkerOn, proven


def test_the_usual_readers_read_comparisons_from_s3(
    s3_environment: S3Server,
    s3_store: S3Store,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    simulator = simulate()
    worker = worker_on(proven(s3_store), simulator)
    finished(worker, experiment_file(more="directions: [forward, reverse]\nbatch: {max_requests: 4}"))
    expected = sorted(rows(worker).column("request_id").to_pylist())
    folder = f"{s3_store.url.removeprefix('s3://')}/comparisons"
    files = S3FileSystem(use_listings_cache=False, skip_instance_cache=True)
    handed = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(files))

    folders = ds.HivePartitioning.discover(infer_dictionary=True)
    dataset = ds.dataset(folder, filesystem=handed, partitioning=folders)
    assert sorted(dataset.to_table(columns=["request_id"]).column(0).to_pylist()) == expected

    with duckdb.connect() as connection:
        connection.register_filesystem(files)
        table = f"read_parquet('s3://{folder}/**/*.parquet', hive_partitioning=true)"
        found = connection.sql(f"select request_id from {table} order by 1").fetchall()
        assert [row[0] for row in found] == expected
        connection.register("comparisons", dataset)
        found = connection.sql("select request_id from comparisons order by 1").fetchall()
        assert [row[0] for row in found] == expected

    frame = pd.read_parquet(folder, filesystem=files)
    assert sorted(frame["request_id"]) == expected
    assert set(frame["direction"]) == {"forward", "reverse"}

    lazy = pl.scan_pyarrow_dataset(dataset).filter(pl.col("direction") == "reverse").select("request_id")
    assert len(lazy.collect()) == len(expected) // 2
    own = pl.scan_parquet(f"s3://{folder}/**/*.parquet", storage_options={"aws_allow_http": "true"})
    assert sorted(own.select("request_id").collect()["request_id"]) == expected


def _a_machine(home: Path, server: S3Server, simulator: Simulator, store: Store) -> dict[str, str]:
    """The environment of a process on a machine of its own."""
    home.mkdir()
    pace = {"PAIRLOG_QUIET_SECONDS": "0.5", "PAIRLOG_LEASE_SECONDS": "1"}
    named = {"HOME": str(home), "PAIRLOG_STORE": store.url, "PATH": os.environ["PATH"]}
    return {**named, **pace, **server.environment(), **environment(simulator)}


def test_one_machine_submits_and_dies_and_another_finishes(
    s3_server: S3Server,
    s3_store: S3Store,
    tmp_path: Path,
    simulate: Simulate,
    worker_on: WorkerOn,
    experiment_file: ExperimentFile,
) -> None:
    file, simulator, store = experiment_file(more="batch: {max_requests: 5}"), simulate(), proven(s3_store)
    one = _a_machine(tmp_path / "one", s3_server, simulator, store)
    with subprocess.Popen([sys.executable, "-m", "pipeline.cli", "submit", str(file)], env=one, stderr=PIPE) as process:
        while not simulator.ledger.creates and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    file.unlink()
    other = _a_machine(tmp_path / "other", s3_server, simulator, store)
    resumed = [sys.executable, "-m", "pipeline.cli", "resume", "--interval", "0.1"]
    subprocess.run(resumed, env=other, check=True, stderr=PIPE, timeout=60)
    worker = worker_on(store, simulator)
    assert rows(worker).num_rows == 15
    check_against_ledger(worker, simulator.ledger)


def test_a_study_runs_on_gcs(
    gcs_store: GcsStore, simulate: Simulate, worker_on: WorkerOn, experiment_file: ExperimentFile
) -> None:
    simulator = simulate()
    worker = worker_on(gcs_store, simulator)
    finished(worker, experiment_file(more="batch: {max_requests: 5}"))
    check_against_ledger(worker, simulator.ledger)
