"""Whether keys, store and providers are in order, before a study finds out."""

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import msgspec

from pipeline import providers
from pipeline.errors import PipelineError
from pipeline.operations.workers.worker import Worker
from pipeline.storage.probe import prove


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, how it is, and what was found."""

    what: str
    how: Literal["good", "broken", "unused"]
    found: str


def examine(worker: Worker) -> list[Examined]:
    """Race writers on the store, and make one free call to each provider that has a key; no key is told.

    All providers are asked at the same time: one that does not answer takes as long as it is tried.
    """
    names = providers.names()
    with ThreadPoolExecutor(len(names)) as pool:
        asked = [pool.submit(_provider, worker, name) for name in names]
        return [_store(worker), *(each.result() for each in asked)]


def _store(worker: Worker) -> Examined:
    what = f"store {worker.store.url}"
    try:
        prove(worker.store, worker.clock)
    except PipelineError as error:
        return Examined(what=what, how="broken", found=str(error))
    return Examined(what=what, how="good", found="refuses a second create")


def _provider(worker: Worker, name: str) -> Examined:
    module = providers.module(name)
    key = worker.settings.is_set(*module.KEYS)
    if key is None:
        return Examined(what=name, how="unused", found=f"{' or '.join(module.KEYS)} is not set")
    try:
        if isinstance(module, providers.LiveOnlyModule):
            reached = module.check_live(worker.settings, worker.clock)
        else:
            reached = worker.provider(name).check()
    except PipelineError as error:
        return Examined(what=name, how="broken", found=f"{key} is set; {error}")
    return Examined(what=name, how="good", found=f"{key} is set; reached: {reached}")
