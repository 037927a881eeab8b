"""Builders of comparisons: by hand, row by row, or by simulated judges whose taste is known."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

Row = tuple[str, str, str]


def a_table(rows: Sequence[Row], **columns: Sequence[object]) -> pa.Table:
    """Comparisons from (first, second, outcome); an outcome that is none of the three is a status."""
    outcomes = [outcome if outcome in ("first", "second", "tie") else None for _, _, outcome in rows]
    plain = {
        "first_id": pa.array([first for first, _, _ in rows], pa.string()),
        "second_id": pa.array([second for _, second, _ in rows], pa.string()),
        "status": pa.array(["ok" if known else row[2] for known, row in zip(outcomes, rows, strict=True)], pa.string()),
        "outcome": pa.array(outcomes, pa.string()),
    }
    return pa.table({**plain, **columns})


def true_scores(contestants: int) -> np.ndarray:
    return np.linspace(1.5, -1.5, contestants)


def a_study(
    contestants: int = 12,
    *,
    judges: dict[str, float] | None = None,
    seed: int = 0,
    ties: float = 0.0,
    sharpness: dict[str, float] | None = None,
    repeats: int = 1,
    names: Sequence[str] | None = None,
) -> pa.Table:
    """All pairs in both orders by judges (model name → preference for the first position); c00 is truly best."""
    judges = judges if judges is not None else {"gpt-6-luna": 0.0}
    draw = np.random.default_rng(seed)
    quality = true_scores(contestants)
    names = names or [f"c{number:02d}" for number in range(contestants)]
    rows: list[Row] = []
    models: list[str] = []
    directions: list[str] = []
    for model, bias in judges.items():
        sharp = (sharpness or {}).get(model, 1.0)
        for _ in range(repeats):
            for one in range(contestants):
                for other in range(one + 1, contestants):
                    for direction, (first, second) in (("forward", (one, other)), ("reverse", (other, one))):
                        chance = 1 / (1 + np.exp(-(sharp * (quality[first] - quality[second]) + bias)))
                        outcome = "first" if draw.random() < chance else "second"
                        rows.append((names[first], names[second], "tie" if draw.random() < ties else outcome))
                        models.append(model)
                        directions.append(direction)
    return a_table(
        rows, model=models, provider=["openai"] * len(rows), template=["default"] * len(rows), direction=directions
    )


def random_rows(contestants: int, count: int, *, seed: int, ties: float = 0.0, bias: float = 0.0):
    draw = np.random.default_rng(seed)
    quality = draw.standard_normal(contestants)
    first = draw.integers(0, contestants, count).astype(np.int32)
    second = ((first + draw.integers(1, contestants, count)) % contestants).astype(np.int32)
    chance = 1 / (1 + np.exp(-(quality[first] - quality[second] + bias)))
    halves = np.where(draw.random(count) < chance, 2, 0).astype(np.int8)
    halves[draw.random(count) < ties] = 1
    return first, second, halves
