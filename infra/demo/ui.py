"""`make ui`: Dagster on this machine with the bundled experiment, judged by the simulator: no key, no cost.

Everything lies in `.dagster/` and is made anew each time, because the simulator forgets its batches when it stops.
"""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from pipeline.simulator import Simulator, SimulatorSettings, environment

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".dagster"
PORT = os.environ.get("PORT", "3000")
ADDRESS = f"http://127.0.0.1:{PORT}"
PATIENCE_SECONDS = 120

WHAT_TO_CLICK = f"""
Pairlog in Dagster is ready: open {ADDRESS}/asset-groups

  1. samples, then pairs: Materialize, choose All (`essays`). Nothing is sent; its segments appear.
     (The sensor `experiment_files` registers the partition within half a minute of the start. Until there are segments,
     Dagster shows submitted_batches, provider_outputs and comparisons as green: nothing of them is missing.)
  2. submitted_batches: Materialize, choose All, launch. (Or job `submit`: experiment essays, most_requests 1000.)
     Segments of a backfill start after half a minute; one segment alone starts at once.
  3. Wait: `batch_status` polls, and provider_outputs, comparisons, rankings and diagnostics turn green by themselves.
  4. rankings, tab Partitions, `essays`: in its metadata are the answer in short, the table, the picture and the report.
     The same place of diagnostics says whether the judges can be trusted; the tab Checks has the checks.

The judges are a simulator on this machine. The rows: {HOME}/store/comparisons. Stop with Ctrl-C.
"""


def main() -> int:
    """Serve until interrupted."""
    if not _is_free(int(PORT)):
        print(f"port {PORT} is taken; choose another: PORT=3001 make ui")
        return 1
    for stop in (signal.SIGINT, signal.SIGTERM):  # in the background of a script Ctrl-C is ignored, by Dagster too
        signal.signal(stop, signal.default_int_handler)
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    shutil.copy(ROOT / "infra" / "dagster" / "local.yaml", HOME / "dagster.yaml")
    with Simulator(_simulated()) as simulator:
        settings = {
            "DAGSTER_HOME": str(HOME),
            "PAIRLOG_STORE": str(HOME / "store"),
            "PAIRLOG_EXPERIMENTS": str(ROOT / "infra" / "demo"),
            **environment(simulator.url),
        }
        dagster = [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", PORT]
        log = (HOME / "dagster.log").open("w", encoding="utf-8")
        print(f"starting Dagster on {ADDRESS}: some 20 seconds; then this says what to click", flush=True)
        with log, subprocess.Popen(dagster, cwd=ROOT, env={**os.environ, **settings}, stdout=log, stderr=log) as served:
            try:
                print(WHAT_TO_CLICK if _is_up(served) else f"Dagster did not start; see {HOME}/dagster.log", flush=True)
                return served.wait()
            except KeyboardInterrupt:
                served.send_signal(signal.SIGINT)
                return 0


def _simulated() -> SimulatorSettings:
    with (ROOT / "infra" / "demo" / "essays.csv").open(encoding="utf-8", newline="") as file:
        qualities = {row["text"]: float(row["quality"]) for row in csv.DictReader(file)}
    return SimulatorSettings(qualities=qualities, sharpness=3.0, bias=0.4, seed=7, latency_seconds=20.0)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def _is_up(served: subprocess.Popen[bytes]) -> bool:
    for _ in range(PATIENCE_SECONDS):
        try:
            with urllib.request.urlopen(f"{ADDRESS}/server_info", timeout=2):
                return True
        except (OSError, urllib.error.URLError):
            if served.poll() is not None:
                return False
            time.sleep(1)
    return False


if __name__ == "__main__":
    sys.exit(main())
