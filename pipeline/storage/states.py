"""The states of many runs at once, for a few listings and few objects each."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pipeline.ids import RunId
from pipeline.state import RunState
from pipeline.storage import Reads, keys
from pipeline.storage.log import current_state

_RUNS_AT_ONCE = 8


def current_states(store: Reads, run_ids: Iterable[RunId]) -> dict[RunId, RunState]:
    """Return the states of the runs now; logs and checkpoints of all of them are listed once."""
    wanted = list(run_ids)
    listed = _ListedOnce(store)
    with ThreadPoolExecutor(_RUNS_AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(lambda run_id: current_state(listed, run_id), wanted), strict=True))


class _ListedOnce:
    """A store that lists logs and checkpoints at once; asking again for the same folder gives a fresh listing."""

    def __init__(self, store: Reads) -> None:
        self._store = store
        self._folders: dict[str, list[str]] = {}
        self._asked: set[str] = set()
        for key in (*store.list_from(keys.LOG), *store.list_from(keys.CHECKPOINTS)):
            self._folders.setdefault(key.rpartition("/")[0], []).append(key)

    def get(self, key: str) -> bytes:
        """Return the object's bytes, or raise MissingError."""
        return self._store.get(key)

    def list_from(self, folder: str, *, after: str = "") -> list[str]:
        """Return every key of the folder that sorts behind `after`, in order."""
        if folder in self._asked:
            return self._store.list_from(folder, after=after)
        self._asked.add(folder)
        return [key for key in self._folders.get(folder, ()) if key > after]
