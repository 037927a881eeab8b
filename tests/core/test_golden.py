"""Logs that this version wrote must decode and fold for ever.

`tests/golden/log/v1` holds commits with every kind of event, and the state they fold to; files are never changed.
"""

from pathlib import Path

import msgspec
import pytest

from pipeline.events import AnyEvent, decode_commit, encode_commit
from pipeline.folding import fold
from pipeline.ids import RunId
from pipeline.state import RunState
from tests.contracts.trials import GOLDEN

VERSIONS = sorted((GOLDEN / "log").iterdir())


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_every_past_version_folds_to_the_state_it_had(version: Path) -> None:
    commits = [decode_commit(path.read_bytes(), key=path.name) for path in sorted(version.glob("*.json"))]
    state = fold(RunState(run_id=RunId(commits[0].run_id)), commits)
    then = msgspec.json.decode((version / "state").read_bytes())
    now = msgspec.json.decode(msgspec.json.encode(state, enc_hook=dict))
    assert _common(now, then) == then


def _common(now: object, then: object) -> object:
    """Return as much of the state as that version knew: later ones may know more."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {key: _common(now.get(key), value) for key, value in then.items()}
    return now


def test_the_golden_logs_hold_every_kind_of_event() -> None:
    bodies = b"".join(path.read_bytes() for version in VERSIONS for path in version.glob("*.json"))
    for kind in AnyEvent.__args__:
        assert f'"{kind.__struct_config__.tag}"'.encode() in bodies, kind


def test_this_version_writes_what_it_wrote() -> None:
    for path in sorted(VERSIONS[-1].glob("*.json")):
        assert encode_commit(decode_commit(path.read_bytes(), key=path.name)) == path.read_bytes()
