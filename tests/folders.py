"""Where tests have their folders: in memory if there is room, for a store waits for the disk at every object."""

import os
import shutil
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_ROOM = 4 * 2**30


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Choose before pytest does; whoever names a place is obeyed."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
