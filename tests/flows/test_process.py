"""Names of workers: a dead process of this machine is known at once, one of any other machine is not judged."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.clock import SystemClock
from pipeline.operations.workers.process import is_gone, process_name

BOOT = Path("/proc/sys/kernel/random/boot_id")
SAY_NAME = (
    "from pipeline.clock import SystemClock; from pipeline.operations.workers.process import process_name;"
    "print(process_name(SystemClock()))"
)


@pytest.fixture
def dead() -> str:
    """The name of a process that ran on this machine and has ended."""
    return subprocess.run([sys.executable, "-c", SAY_NAME], capture_output=True, text=True, check=True).stdout.strip()


def test_a_dead_process_of_this_machine_is_gone_and_a_living_one_is_not(dead: str) -> None:
    assert is_gone(dead)
    assert not is_gone(process_name(SystemClock()))


@pytest.mark.skipif(not BOOT.exists(), reason="only Linux tells one start of a machine from another")
@pytest.mark.parametrize("start", [".0dd5a1e5-0000-4000-8000-000000000000", ""])
def test_a_process_of_another_host_with_the_same_name_is_not_judged(dead: str, start: str) -> None:
    here = "." + BOOT.read_text(encoding="ascii").strip()
    assert here in dead
    assert not is_gone(dead.replace(here, start))


@pytest.mark.parametrize("name", ["", "unknown", "host.4026531836/1/abcdef01", "host/1", "a/b/c/d"])
def test_a_name_from_nowhere_is_not_judged(name: str) -> None:
    assert not is_gone(name)
