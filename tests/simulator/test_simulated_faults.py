"""Faults are spelled on a command line or sent as JSON, strike as often as they are told to, and are checked."""

import pytest

from pipeline.errors import ConfigError
from pipeline.simulator.faults import NAMES, Fault, Faults, faults_from_json, parse_faults


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", {}),
        ("output.shuffle", {"output.shuffle": Fault()}),
        ("create.lost=1, create.504_applied=2", {"create.lost": Fault(times=1), "create.504_applied": Fault(times=2)}),
        ("expire.share=0.1", {"expire.share": Fault(value=0.1)}),
        ("line.500=0.5*1", {"line.500": Fault(value=0.5, times=1)}),
        ("create.429:7=2", {"create.429": Fault(value=7, times=2)}),
        ("create.late:0.5*3", {"create.late": Fault(value=0.5, times=3)}),
    ],
)
def test_faults_are_read_from_a_command_line(text: str, faults: dict[str, Fault]) -> None:
    assert parse_faults(text) == faults


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("create.lots=1", r"did you mean create\.lost\?"),
        ("zzz.999=1", "there is no fault 'zzz.999'; `pairlog simulate --faults help` lists them"),
        ("nonsense", "there is no fault 'nonsense'"),
        ("lost=1", r"there is no fault 'lost'; did you mean cancel\.lost or create\.lost or delete\.lost\?"),
        ("expire.share=2", "share between 0 and 1"),
        ("create.lost=1.5", "number that cannot be read"),
        ("create.lost=-1", "is not spelled"),
    ],
)
def test_a_wrong_spelling_is_refused_with_a_remedy(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_faults(text)


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (b"{}", {}),
        (b'"create.lost=1"', {"create.lost": Fault(times=1)}),
        (b'{"create.lost": 2, "line.500": 0.5}', {"create.lost": Fault(times=2), "line.500": Fault(value=0.5)}),
        (b'{"output.bom": true, "output.crlf": false}', {"output.bom": Fault()}),
        (b'{"create.429": {"value": 7, "times": 1}}', {"create.429": Fault(value=7, times=1)}),
    ],
)
def test_faults_are_read_from_json(body: bytes, faults: dict[str, Fault]) -> None:
    assert faults_from_json(body) == faults


@pytest.mark.parametrize("body", [b"", b"[]", b'{"nothing.known": 1}', b'{"create.lost": "often"}'])
def test_unreadable_json_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigError):
        faults_from_json(body)


def test_a_fault_strikes_as_often_as_it_is_told_to() -> None:
    faults = Faults({"create.lost": Fault(times=2), "output.bom": Fault()})
    assert [faults.take("create.lost") is not None for _ in range(3)] == [True, True, False]
    assert all(faults.take("output.bom") for _ in range(5))
    assert faults.take("create.html") is None


def test_one_fault_strikes_a_call_and_the_others_wait() -> None:
    faults = Faults(parse_faults("create.lost=1,create.500=1,list.lag:5,download.cut"))
    effects = [struck.effect if (struck := faults.take_call("create")) else None for _ in range(3)]
    assert effects == ["lost", "500", None]
    assert faults.take_call("list") is None
    assert faults.take_call("download") is None


def test_every_name_can_be_spelled() -> None:
    assert {name for text in NAMES for name in parse_faults(text)} == NAMES
