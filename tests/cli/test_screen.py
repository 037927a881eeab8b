"""What a person sees at a terminal of 80 columns."""

from collections.abc import Callable

import pytest

from pipeline.cli.app import IN_ORDER_OF_USE
from tests.cli.conftest import Called

Pairlog = Callable[..., Called]


@pytest.fixture(autouse=True)
def _narrow(pairlog: Pairlog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_help_lists_every_command_in_the_order_of_use_and_cuts_no_line_off(pairlog: Pairlog) -> None:
    called = pairlog("-h")
    lines = called.out.partition("Commands:\n")[2].splitlines()
    assert called.code == 0
    assert [line.split()[0] for line in lines] == list(IN_ORDER_OF_USE)
    assert [line for line in lines if line.endswith("...")] == []


@pytest.mark.parametrize("command", [["plan"], ["store", "usage"], ["import", "speceval"]])
def test_every_command_knows_both_names_of_help(pairlog: Pairlog, command: list[str]) -> None:
    short, long = pairlog(*command, "-h"), pairlog(*command, "--help")
    assert (short.code, short.out) == (long.code, long.out)
    assert short.code == 0


def test_the_version_is_told(pairlog: Pairlog) -> None:
    called = pairlog("--version")
    assert (called.code, called.out.split()[0]) == (0, "pairlog")
