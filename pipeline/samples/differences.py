"""What differs between two versions of an experiment's samples, in words for the person who changed them."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipeline.samples.content import Column
from pipeline.samples.table import Samples
from pipeline.wording import and_more


def differences(old: Samples, new: Samples) -> list[str]:
    """Return one phrase for each kind of difference, with the first id it is about; none where only order differs."""
    before, after = ({each: at for at, each in enumerate(samples.ids())} for samples in (old, new))
    shared = [each for each in before if each in after]
    places = [pa.array(np.array([where[each] for each in shared], np.int64)) for where in (before, after)]
    one, other = old.table.take(places[0]), new.table.take(places[1])
    found = []
    for name in dict.fromkeys((*one.column_names, *other.column_names)):
        if name not in one.column_names or name not in other.column_names:
            found.append(f"the column {name} was {'added' if name in other.column_names else 'removed'}")
            continue
        changed = [shared[at] for at in _unequal(one.column(name), other.column(name))]
        if changed:
            found.append(f"{name} of {_named(changed)} changed")
    for what, ids in (
        ("added", [each for each in after if each not in before]),
        ("removed", [each for each in before if each not in after]),
    ):
        if ids:
            found.append(f"{_named(ids)} {'was' if len(ids) == 1 else 'were'} {what}")
    return found


def _named(ids: Sequence[str]) -> str:
    return and_more([repr(each[:60]) for each in ids])


def _unequal(one: Column, other: Column) -> list[int]:
    """Return where two columns of one length differ; two values that are written alike do not."""
    if one.equals(other):
        return []
    pairs = enumerate(zip(one.to_pylist(), other.to_pylist(), strict=True))
    return [at for at, (left, right) in pairs if left != right and str(left) != str(right)]
