"""Every object key of a store is built and recognised here; nobody else formats a path."""

import re

from pipeline.errors import StoreError
from pipeline.ids import EXPERIMENT_NAME, BatchId, Digest, ExperimentName, RunId, digest

STORE = "pairlog.json"
ORIGIN = "origin.json"
LOG = "log"
EXPERIMENTS = "experiments"
CHECKPOINTS = "checkpoints"
LEASES = "leases"
DATA = (
    "samples", "pairs", "requests", "outputs", "rankings", "diagnostics", "reports", LEASES,
)  # fmt: skip
CACHES = (CHECKPOINTS, "probe")
PROVEN = (EXPERIMENTS, "samples", "pairs", LOG, CHECKPOINTS, "requests", "outputs")  # nothing strange may lie there

_SEQUENCE = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.msgpack\.zst")
_EXPERIMENT = re.compile(rf"{EXPERIMENTS}/({EXPERIMENT_NAME.pattern})/([0-9a-f]{{64}})\.json")
_PART = re.compile(r"\d+\.[a-z0-9-]+-[0-9a-f]{8}\.jsonl\.zst")
_SAFE = re.compile(r"[A-Za-z0-9._=-]{1,255}")


def commit(run_id: RunId, seq: int) -> str:
    """Return the key of a run's commit number `seq`."""
    return f"{log(run_id)}/{seq:020d}.json"


def log(run_id: RunId) -> str:
    """Return the folder of a run's log."""
    return f"{LOG}/{run_id}"


def commit_seq(key: str) -> int | None:
    """Return the number of a commit's key, or None for a stray object."""
    match = _SEQUENCE.fullmatch(key.rpartition("/")[2])
    return int(match[1]) if match else None


def checkpoint(run_id: RunId, seq: int) -> str:
    """Return the key of the state of a run after its commit number `seq`."""
    return f"{checkpoints(run_id)}/{seq:020d}.msgpack.zst"


def checkpoints(run_id: RunId) -> str:
    """Return the folder of a run's checkpoints."""
    return f"{CHECKPOINTS}/{run_id}"


def checkpoint_seq(key: str) -> int | None:
    """Return the number of the last commit in a checkpoint, or None for a stray object."""
    match = _CHECKPOINT.fullmatch(key.rpartition("/")[2])
    return int(match[1]) if match else None


def experiments(name: ExperimentName) -> str:
    """Return the folder of an experiment's frozen versions."""
    return f"{EXPERIMENTS}/{name}"


def experiment(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of a frozen experiment."""
    return f"{experiments(name)}/{digest_}.json"


def experiment_named(key: str) -> tuple[ExperimentName, Digest] | None:
    """Return whose frozen version a key is, or None for a stray object: files of experiments lie there too."""
    match = _EXPERIMENT.fullmatch(key)
    return (ExperimentName(match[1]), Digest(match[2])) if match else None


def samples(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of an experiment's texts."""
    return f"samples/{name}/{digest_}.parquet"


def pairs(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of an experiment's pairs."""
    return f"pairs/experiment={name}/{digest_}.parquet"


def requests(run_id: RunId, batch_id: BatchId) -> str:
    """Return the key of what is sent as one batch."""
    return f"requests/{run_id}/{batch_id}.jsonl.zst"


def output(run_id: RunId, batch_id: BatchId, *, attempt: int, part: str, source: str) -> str:
    """Return the key of one raw part of what came back for an attempt; `source` is the provider's name for it."""
    return f"{outputs(run_id, batch_id)}/{attempt}.{part}-{digest(source.encode())[:8]}.jsonl.zst"


def is_output(key: str, *, attempt: int, part: str) -> bool:
    """Say whether the key is one of an attempt's raw parts whose names begin so."""
    return key.rpartition("/")[2].startswith(f"{attempt}.{part}")


def is_part(key: str) -> bool:
    """Say whether the key is named as a raw part of some attempt is."""
    return _PART.fullmatch(key.rpartition("/")[2]) is not None


def outputs(run_id: RunId, batch_id: BatchId) -> str:
    """Return the folder of everything that came back for a batch."""
    return f"outputs/{run_id}/{batch_id}"


def rows(table: str, name: ExperimentName, run_id: RunId, batch_id: BatchId) -> str:
    """Return the key of the rows of a task's table that ended in one batch."""
    return f"{table}/experiment={name}/run={run_id}/{batch_id}.parquet"


def ranking(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of the ranking made of these rows."""
    return f"rankings/experiment={name}/{digest_}.parquet"


def diagnostics(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of the judges' diagnostics made of these rows."""
    return f"diagnostics/experiment={name}/{digest_}.parquet"


def report(name: ExperimentName, digest_: Digest) -> str:
    """Return the key of the page about these rows."""
    return f"reports/experiment={name}/{digest_}.html"


def leases(name: str) -> str:
    """Return the folder of the leases under one name."""
    return f"{LEASES}/{name}"


def lease(name: str, epoch: int) -> str:
    """Return the key of a lease's epoch."""
    return f"{leases(name)}/{epoch:020d}.json"


def lease_epoch(key: str) -> int | None:
    """Return the epoch of a lease's key, or None for a stray object."""
    return commit_seq(key)


def probe(nonce: str, round_: int) -> str:
    """Return a key for one race of the start-up probe."""
    return f"probe/{nonce}-{round_}.json"


def checked(key: str) -> str:
    """Return the key if it stays inside the store, else raise."""
    parts = key.split("/")
    if not all(_SAFE.fullmatch(part) and part.strip(".") for part in parts) or len(key) > 1024:
        raise StoreError(f"key {key!r} is not one of ours; nothing was written")
    return key
