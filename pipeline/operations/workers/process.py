"""Who a worker is: a name that tells it from every other, and tells on its own machine whether it is still alive."""

import os
import socket
from pathlib import Path

from pipeline.clock import Clock


def process_name(clock: Clock) -> str:
    """Return a name for this process: machine, process number, and something that was never used before."""
    return f"{_machine()}/{os.getpid()}/{clock.nonce()[-8:]}"


def is_gone(name: str) -> bool:
    """Say whether the process of this name ran on this machine and has ended; of other machines nothing is known."""
    machine, _, rest = name.rpartition("/")[0].rpartition("/")
    if machine != _machine() or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _machine() -> str:
    """Return the host's name and, where there are any, the space its process numbers are valid in and its start.

    The space is a container's. Outside of one it has the same number on every Linux host, and so may the host's name
    be the same: only what the kernel drew at its start tells two of them apart.
    """
    try:
        space = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        space = 0
    try:
        start = "." + Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        start = ""
    return f"{socket.gethostname()}.{space}{start}"
