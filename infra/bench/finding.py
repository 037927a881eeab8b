"""C. From the ids that came back, in any order, to the pairs that were asked about."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import Bar, Case, Result, at_least, ratios, side_by_side, timed, values

from pipeline.ids import Digest, RequestIds, name_digests
from pipeline.tasks.columns import equally_long
from pipeline.tasks.lookup import Lookup

BATCH = 34_000  # requests of 5.9 kB that fit into 200 MB
PRESENT = 0.988


def prepare(folder: Path, size: int) -> None:
    """Write the ids that were sent with the samples they are about, and those that came back, batch by batch."""
    encoded = RequestIds(Digest("bench")).encoded(np.arange(size), name_digests(map(str, range(size))))
    ids = equally_long(encoded).to_pylist()
    samples = np.random.default_rng(0).integers(0, 5_000, (2, size), dtype=np.int32)
    batches = np.arange(size) // BATCH
    pq.write_table(
        pa.table([pa.array(ids), *samples, batches], names=["id", "first", "second", "batch"]), folder / "sent.parquet"
    )
    chance, back = random.Random(0), []
    for start in range(0, size, BATCH):
        some = ids[start : start + BATCH]
        back += chance.sample(some, round(len(some) * PRESENT))
    pq.write_table(pa.table({"id": back}), folder / "back.parquet")


def _batches(folder: Path) -> list[tuple[np.ndarray, pa.Array, pa.Array]]:
    """Return of each batch the positions and ids of its requests, and the ids that came back for it."""
    sent, back = pq.read_table(folder / "sent.parquet"), pq.read_table(folder / "back.parquet")["id"]
    made, taken = [], 0
    for start in range(0, len(sent), BATCH):
        ids = sent["id"].slice(start, BATCH).combine_chunks()
        came = round(len(ids) * PRESENT)
        made.append(
            (np.arange(start, start + len(ids)), pa.array(ids.to_pylist()), back.slice(taken, came).combine_chunks())
        )
        taken += came
    return made


def ours(folder: Path, size: int) -> Result:
    """Look where each id says it stands, compare it whole, and gather the samples."""
    sent, batches = pq.read_table(folder / "sent.parquet"), _batches(folder)
    first, second = sent["first"].to_numpy(), sent["second"].to_numpy()
    found: list[tuple[np.ndarray, np.ndarray]] = []

    def work() -> None:
        for positions, ids, back in batches:
            places = Lookup(positions, ids).places(back)
            at = positions[places[places >= 0]]
            found.append((first[at], second[at]))

    spent = timed(work)
    asked = {name: at for at, name in enumerate(sent["id"].to_pylist())}
    right = np.array([asked[name] for name in pq.read_table(folder / "back.parquet")["id"].to_pylist()])
    same = np.array_equal(np.concatenate([each for each, _ in found]), first[right])
    return {**spent, "equal": float(same and size == len(sent))}


def dictionary(folder: Path, size: int) -> Result:
    """A dictionary from id to pair."""
    sent = pq.read_table(folder / "sent.parquet")
    ids, first, second = (sent[name].to_pylist() for name in ("id", "first", "second"))
    back = pq.read_table(folder / "back.parquet")["id"].to_pylist()

    def work() -> list[tuple[int, int] | None]:
        pairs = dict(zip(ids, zip(first, second, strict=True), strict=True))
        return [pairs.get(name) for name in back]

    return timed(work)


def polars_join(folder: Path, size: int) -> Result:
    import polars as pl

    sent, back = pl.read_parquet(folder / "sent.parquet"), pl.read_parquet(folder / "back.parquet")
    return timed(lambda: back.join(sent, on="id", how="left", maintain_order="left"))


def bars(folder: Path, sizes: dict[str, int], rounds: int) -> list[Bar]:
    size = sizes["find"]
    prepare(folder, size)
    names = ("ours", "dictionary", "polars_join")
    seen = side_by_side((Case(f"finding.{name}", folder, size) for name in names), rounds=rounds)
    over = ratios(seen, "finding.dictionary", "finding.ours")
    join = ratios(seen, "finding.polars_join", "finding.ours")
    return [
        at_least("C look-up", f"{size:,} ids, over a dictionary", over, 30),
        at_least("C look-up", f"{size:,} ids, over a join in Polars", join, 5),
        at_least("C look-up", "pairs equal to the dictionary's", values(seen, "finding.ours", "equal"), 1, ""),
    ]
