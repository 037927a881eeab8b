"""The guide's session, as it is written there, on a study that has ended."""

import re
from pathlib import Path

import pytest

from pipeline.notebook import Study

GUIDE = Path(__file__).parents[2] / "docs/guides/notebooks.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_every_block_of_the_guide_runs(essays: Study, capsys: pytest.CaptureFixture[str]) -> None:
    session: dict[str, object] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), session)
    said = capsys.readouterr().out
    leader = essays.ranking().standings[0].contestant
    assert f"essays → {leader}\n" in said
    assert "grades → grades is a grading study and compares nothing; report() shows what it found\n" in said
    assert said.count("●") == 6
    assert Path("essays.html").read_text(encoding="utf-8") == essays.report().html
