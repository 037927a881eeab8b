"""The simulator is served from a thread or by a command, starts at once and leaves nothing behind."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from pipeline.errors import ConfigError
from pipeline.simulator import Fault, Simulator, SimulatorSettings
from tests.effort import million_steps

SERVE = """
from pipeline.simulator import SimulatorSettings, serve
serve(SimulatorSettings(), ready=lambda url: print(url, flush=True))
"""


def test_it_starts_with_well_under_a_second_of_work_and_stops_for_good() -> None:
    begin = time.process_time()
    with Simulator(SimulatorSettings()) as simulator:
        spent = time.process_time() - begin
        assert httpx.get(f"{simulator.url}/simulator/ledger").status_code == 200
        assert simulator.openai_base_url == f"{simulator.url}/v1"
        url = simulator.url
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert million_steps(spent) < 8


def test_it_stops_at_once_where_nobody_is_connected() -> None:
    spent = []
    for _ in range(8):
        with Simulator(SimulatorSettings()) as simulator:
            assert httpx.get(f"{simulator.url}/simulator/ledger").status_code == 200
            begin = time.monotonic()
        spent.append(time.monotonic() - begin)
    assert min(spent) < 0.1


def test_a_port_that_is_taken_is_refused_in_words() -> None:
    with Simulator(SimulatorSettings()) as simulator, pytest.raises(ConfigError, match=f"port {simulator.port} of"):
        Simulator(SimulatorSettings(port=simulator.port)).__enter__()


def test_settings_with_an_unknown_fault_are_refused() -> None:
    with pytest.raises(ConfigError, match="there is no fault"):
        Simulator(SimulatorSettings(faults={"create.lots": Fault()})).__enter__()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_served_simulator_ends_in_good_order_when_interrupted(tmp_path: Path, sent: signal.Signals) -> None:
    root = Path(__file__).parents[2]
    environment = {"TMPDIR": str(tmp_path), "PYTHONPATH": str(root)}
    command = [sys.executable, "-W", "error", "-c", SERVE]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert httpx.get(f"{url}/simulator/ledger").status_code == 200
        assert [folder.name.startswith("pairlog-simulator-") for folder in tmp_path.iterdir()] == [True]
        process.send_signal(sent)
        _, said = process.communicate(timeout=10)
    assert (process.returncode, said, list(tmp_path.iterdir())) == (0, "", [])
