"""Every stage beside its peers, in one run: prints bars and verdicts, keeps them as JSON and as a chart.

`python infra/bench/run.py [--rounds N] [--quick] [--only STAGE]` ends with 1 if a bar is missed; `--table` prints the
last run's figures as docs/guides/speed.md has them.
"""

import argparse
import importlib
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import chart
from measuring import Bar

STAGES = ("building", "parsing", "finding", "pairing_up", "folding", "whole", "ranked")
SIZES = {"build": 100_000, "million": 1_000_000, "find": 1_000_000, "pairs": 1_000_000,
         "batches": 10_000, "whole": 100_000, "rank": 1_000_000}  # fmt: skip
QUICK = {name: max(size // 20, 500) for name, size in SIZES.items()}
OUT = HERE.parents[1] / ".artifacts" / "bench"


def one_case(name: str, folder: str, size: str) -> None:
    """Run one case in this process and print what it measured."""
    module, _, function = name.partition(".")
    print(json.dumps(getattr(importlib.import_module(module), function)(Path(folder), int(size))))


def every_bar(stages: list[str], sizes: dict[str, int], rounds: int) -> list[Bar]:
    met: list[Bar] = []
    for stage in stages:
        with tempfile.TemporaryDirectory(prefix="pairlog-bench-") as folder:
            for bar in importlib.import_module(stage).bars(Path(folder), sizes, rounds):
                print(bar.line(), flush=True)
                met.append(bar)
    return met


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the sizes: for a look, not for the bars")
    parser.add_argument("--only", action="append", choices=STAGES, help="a stage; may be given again")
    parser.add_argument("--table", action="store_true", help="print the figures of the last run in Markdown")
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        one_case(*options.case)
        return 0
    if options.table:
        print(chart.table(OUT))
        return 0
    sizes = QUICK if options.quick else SIZES
    bars = every_bar(options.only or list(STAGES), sizes, options.rounds)
    chart.keep(bars, OUT)
    missed = [bar.name for bar in bars if not bar.is_met]
    print(f"{len(bars) - len(missed)} of {len(bars)} bars met; {OUT / 'bench.json'}, {OUT / 'bench.svg'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
