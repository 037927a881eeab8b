"""What the module of every provider has: what its modes demand, frames with their gaps, a name for its key."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import providers
from pipeline.clock import FixedClock
from pipeline.errors import ConfigError
from pipeline.providers import BatchModule, LiveModule, LiveOnlyModule, Particulars
from pipeline.settings import Settings
from tests.contracts.trials import ADAPTERS, BATCH, LIVE, SCHEMA, a_judge, filled, texts_of


def test_every_provider_is_tried_here() -> None:
    assert set(ADAPTERS) >= set(providers.names())


@pytest.mark.parametrize("name", providers.names())
def test_a_module_has_what_its_modes_demand(name: str) -> None:
    module = providers.module(name)
    assert module.MODES, "one mode at least, the default first"
    assert isinstance(module, BatchModule) == ("batch" in module.MODES)
    assert isinstance(module, LiveModule) == ("live" in module.MODES)
    assert isinstance(module, LiveOnlyModule) == (module.MODES == ("live",))


def test_every_module_is_of_the_type_of_its_modes(tmp_path: Path) -> None:
    checked = tmp_path / "modules.py"
    lines = ["from pipeline import providers"]
    for name in providers.names():
        lines.append(f"from pipeline.providers import {name}")
        modes = providers.module(name).MODES
        lines += [f"{name}_{mode}: providers.{mode.capitalize()}Module = {name}" for mode in modes]
        lines += [f"{name}_only: providers.LiveOnlyModule = {name}"] if modes == ("live",) else []
        said = [field for field in Particulars.__struct_fields__ if hasattr(providers.module(name), field)]
        lines.append(f"providers.Particulars({', '.join(f'{field}={name}.{field}' for field in said)})")
    checked.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), str(checked)]
    done = subprocess.run(command, cwd=Path(providers.__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", providers.names())
def test_a_mode_that_a_provider_has_not_is_named(name: str) -> None:
    modes = providers.module(name).MODES
    for mode, find in (("batch", providers.batch_module), ("live", providers.live_module)):
        if mode not in modes:
            with pytest.raises(ConfigError, match=f"{name} has no mode {mode}; it has {modes[0]}"):
                find(name)


@pytest.mark.parametrize("name", BATCH)
@pytest.mark.parametrize("answer", ["tag", "json"])
def test_a_frame_has_one_gap_for_the_id_and_one_for_the_prompt(name: str, answer: str) -> None:
    judge = a_judge(name, answer=answer)
    frame = providers.batch_module(name).frame(judge, schema=SCHEMA if answer == "json" else None)
    assert sorted(frame.slots) == ["prompt", "request_id"]
    prompt = 'A "quoted"\nprompt\u2028with {{placeholders}}'
    assert prompt in texts_of(json.loads(filled(frame, request_id="r-1", prompt=prompt)))


@pytest.mark.parametrize("name", LIVE)
def test_a_live_frame_has_one_gap_for_the_prompt(name: str) -> None:
    frame = providers.live_module(name).live_frame(a_judge(name, mode="live"), schema=None)
    assert list(frame.slots) == ["prompt"]


@pytest.mark.parametrize("name", BATCH)
def test_a_missing_key_is_named(name: str, clock: FixedClock) -> None:
    module = providers.batch_module(name)
    with pytest.raises(ConfigError, match=module.KEYS[0]):
        module.build(Settings({}), clock, transport=None)
