"""A. From samples and pairs to request lines in a file, and the plan of their batches."""

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from data import LIMITS, write_study
from measuring import Bar, Case, Result, at_least, at_most, peak, ratios, side_by_side, timed, values

from pipeline import planning
from pipeline.operations.studies.plans import Plan, plan
from pipeline.operations.workers.requests import renderer
from pipeline.tasks.rendering import Material, Renderer
from pipeline.tasks.templates import compile_template

MOST_BYTES = 1 << 30
ROUGHLY = 7_500  # bytes a line: no case writes more


def prepare(folder: Path, size: int) -> None:
    """Write the study, and a file whose pages are in memory: the first writer of a page would pay for it."""
    write_study(folder, size)
    with (folder / "lines.jsonl").open("wb") as file:
        for _ in range(min(size * ROUGHLY, MOST_BYTES) >> 20):
            file.write(bytes(1 << 20))


def write(folder: Path, blocks: Iterable[bytes]) -> None:
    """Write the blocks over the warm file, from its start again when it is full."""
    path = folder / "lines.jsonl"
    room = left = path.stat().st_size
    with path.open("r+b", buffering=0) as file:
        for block in blocks:
            if len(block) > left:
                file.seek(0)
                left = room
            left -= len(block)
            file.write(block)


def planned_in(folder: Path) -> Plan:
    return plan(str(folder / "essays.yaml"))


def made_in(folder: Path) -> Renderer:
    planned = planned_in(folder)
    made = renderer(planned.experiment.runs[0], Material.of(planned.samples, planned.pairs))
    assert isinstance(made, Renderer)
    return made


def ours(folder: Path, size: int) -> Result:
    """Escape every sample, make every id, join every line."""
    pa.array([""])  # with its first array pyarrow imports pandas, where there is one
    imported = peak()
    planned = planned_in(folder)

    def work() -> None:
        made = renderer(planned.experiment.runs[0], Material.of(planned.samples, planned.pairs))
        write(folder, made.blocks(np.arange(size)))

    spent = timed(work)
    return {**spent, "grown": spent["rss"] - imported}


class Script:
    """What a person's script has at hand: texts, pairs of their numbers, the words of the question."""

    def __init__(self, folder: Path) -> None:
        planned = planned_in(folder)
        config = planned.experiment.runs[0]
        self.ids, self.texts = planned.samples.ids(), planned.samples.texts()
        self.pairs = list(zip(planned.pairs.first.tolist(), planned.pairs.second.tolist(), strict=True))
        split = compile_template(config.template, answer="tag", tags=config.tags, ties=config.ties).plain
        filled = {"TRAIT_NAME": config.criterion.name, "TRAIT_DESCRIPTION": config.criterion.description}
        words = [split.texts[0]]
        for slot, text in zip(split.slots, split.texts[1:], strict=True):
            words += (filled.get(slot, f"{{{slot}}}"), text)
        self.template, self.model = "".join(words), config.judge.model

    def request(self, first: int, second: int, custom_id: str | None = None) -> dict[str, object]:
        prompt = self.template.format(SAMPLE_1=self.texts[first], SAMPLE_2=self.texts[second])
        return {
            "custom_id": custom_id or f"{self.ids[first]}_vs_{self.ids[second]}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": self.model, "messages": [{"role": "user", "content": prompt}]},
        }


def json_loop(folder: Path, size: int) -> Result:
    """`json.dumps` of a dictionary, request by request."""
    script = Script(folder)
    lines = ((json.dumps(script.request(*pair)) + "\n").encode() for pair in script.pairs[:size])
    return timed(lambda: write(folder, lines))


def orjson_loop(folder: Path, size: int) -> Result:
    """The same by orjson."""
    import orjson

    script = Script(folder)
    lines = (orjson.dumps(script.request(*pair)) + b"\n" for pair in script.pairs[:size])
    return timed(lambda: write(folder, lines))


def bytes_only(folder: Path, size: int) -> Result:
    """The limit: as many bytes, copied and written."""
    total = int(made_in(folder).sizes()[:size].sum())
    block = bytearray(np.random.default_rng(0).bytes(1 << 20))
    blocks = (bytes(block) for _ in range(total >> 20))
    return timed(lambda: write(folder, blocks))


def planning_ours(folder: Path, size: int) -> Result:
    """The batches of all requests, from the lengths of their pieces; done often, because once is too short to time."""
    made, times = made_in(folder), 20
    spent = timed(lambda: [planning.cut(made.sizes(), LIMITS) for _ in range(times)])
    return {**spent, "cpu": spent["cpu"] / times}


def planning_counted(folder: Path, size: int) -> Result:
    """The batches of all requests, from the bytes of every rendered line."""
    made = made_in(folder)
    cuts: list[tuple[int, int]] = []

    def work() -> None:
        count = total = 0
        for at in range(size):
            length = len(made.line(at)) + 1
            if count == LIMITS.max_requests or total + length > LIMITS.max_bytes:
                cuts.append((count, total))
                count = total = 0
            count, total = count + 1, total + length
        cuts.append((count, total))

    spent = timed(work)
    expected = [(segment.requests, segment.bytes) for segment in planning.cut(made.sizes(), LIMITS)]
    return {**spent, "exact": float(cuts == expected)}


def equality(folder: Path, size: int) -> Result:
    """Whether our lines are, byte for byte, what orjson makes of the same dictionaries."""
    import orjson

    made, script, few = made_in(folder), Script(folder), min(size, 2_000)
    names = made.request_ids(np.arange(few)).to_pylist()
    theirs = (
        orjson.dumps(script.request(*pair, name)) + b"\n" for pair, name in zip(script.pairs, names, strict=False)
    )
    return {"equal": float(b"".join(made.blocks(np.arange(few))) == b"".join(theirs))}


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size, million = sizes["build"], sizes["million"]
    prepare(folder, size)
    names = ("ours", "json_loop", "orjson_loop", "bytes_only", "planning_ours", "planning_counted")
    seen = side_by_side((Case(f"building.{name}", folder, size) for name in names), rounds=rounds)
    same = side_by_side([Case("building.equality", folder, size)], rounds=1)
    prepare(folder / "large", million)
    large = side_by_side([Case("building.ours", folder / "large", million)], rounds=1)
    mine, counted, stage = "building.ours", "building.planning_counted", "A build"
    return [
        at_least(stage, "build and write, over a json.dumps loop", ratios(seen, "building.json_loop", mine), 8),
        at_least(stage, "build and write, over orjson on dictionaries", ratios(seen, "building.orjson_loop", mine), 3),
        at_least(stage, "build and write, of copying and writing", ratios(seen, "building.bytes_only", mine), 0.35),
        at_least(stage, "bytes equal to orjson's", values(same, "building.equality", "equal"), 1, ""),
        at_most(stage, "memory beyond the imports", values(seen, mine, "grown"), 120, " MB"),
        at_most(stage, f"memory beyond the imports at {million:,}", values(large, mine, "grown"), 120, " MB"),
        at_most(stage, f"memory at {million:,}", values(large, mine, "rss"), 512, " MB"),
        at_least(stage, "plan, over counting rendered bytes", ratios(seen, counted, "building.planning_ours"), 100),
        at_least(stage, "plan cuts where counting cuts", values(seen, counted, "exact"), 1, ""),
    ]
