"""Answers that a provider shows later than the end of their batch are waited for, and not bought again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.operations.batches.settling import adopt_by_hand
from pipeline.operations.resuming import resume
from tests.conftest import ExperimentFile
from tests.flows.one_time import World
from tests.flows.studies import counts, only_batch, submitted

Worlds = Callable[..., World]
Shown = dict[str, Any]  # Any: a batch as a provider shows it


class Early(httpx.HTTPTransport):
    """A way to the provider on which a batch is shown otherwise than it is, its end a few times."""

    def __init__(self, early: Callable[[Shown], Shown | None], *, always: Callable[[Shown], Shown] = dict) -> None:
        super().__init__()
        self._early = early
        self._always = always
        self._left = 2

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        path = request.url.path
        if request.method != "GET" or path.endswith("/content") or not ("/batches/" in path or "/jobs/" in path):
            return answer
        shown = self._always(json.loads(answer.read()))
        early = self._early(shown) if self._left else None
        self._left -= early is not None
        return httpx.Response(200, json=shown if early is None else early)


def bought_once(here: World, early: Early, file: Path) -> bool:
    """Run the study behind this transport; say whether it ended with one batch and every paid answer in its table."""
    worker = here.beside(transport=early)
    is_open = resume(worker, submitted(worker, file), interval=60).is_open
    here.check()
    return not is_open and len(here.simulator.ledger.creates) == 1


def a_file(experiment_file: ExperimentFile, provider: str) -> Path:
    return experiment_file(judges=f"[{{provider: {provider}, model: {MODELS[provider]}}}]")


MODELS = {
    "azure": "gpt-6-luna", "gemini": "gemini-3-flash", "groq": "openai/gpt-oss-20b", "mistral": "mistral-large-latest",
    "openai": "gpt-6-luna", "together": "meta-llama/Llama-4", "xai": "grok-4",
}  # fmt: skip


@pytest.mark.parametrize("provider", ["azure", "groq", "together"])
def test_answers_that_are_shown_after_the_errors_beside_them_are_waited_for(
    world: Worlds, experiment_file: ExperimentFile, provider: str
) -> None:
    def without_answers(batch: Shown) -> Shown | None:
        return {**batch, "output_file_id": None} if batch.get("output_file_id") else None

    early = Early(without_answers, always=lambda batch: {**batch, "request_counts": None})
    assert bought_once(world("line.400=0.2*1"), early, a_file(experiment_file, provider))


def test_results_of_which_no_number_is_told_are_waited_for(world: Worlds, experiment_file: ExperimentFile) -> None:
    def uncounted(batch: Shown) -> Shown:
        state = batch.get("state", {})
        return {
            **batch,
            "state": {"num_requests": state.get("num_requests", 0), "num_pending": state.get("num_pending")},
        }

    early = Early(lambda page: {"results": []} if "results" in page else None, always=uncounted)
    assert bought_once(world(), early, a_file(experiment_file, "xai"))


def failed_early(provider: str, batch: Shown) -> Shown | None:
    """The batch as one that failed by no fault of ours, with answers that are counted and not shown."""
    if provider == "gemini":
        without = {name: value for name, value in batch["metadata"].items() if name != "output"}
        state = {"metadata": {**without, "state": "BATCH_STATE_FAILED"}, "error": {"code": 13, "message": "internal"}}
        return {**batch, "response": None, **state} if batch.get("done") else None
    if provider == "mistral":
        failed: dict[str, object] = {"status": "FAILED", "errors": [{"message": "internal error"}], "output_file": None}
        return {**batch, **failed} if batch["status"] == "SUCCESS" else None
    failed = {"status": "failed", "errors": {"data": [{"code": "server_error"}]}, "output_file_id": None}
    return {**batch, **failed} if batch["status"] == "completed" else None


@pytest.mark.parametrize("provider", ["gemini", "groq", "mistral", "openai"])
def test_answers_that_are_counted_of_a_batch_that_failed_are_waited_for(
    world: Worlds, experiment_file: ExperimentFile, provider: str
) -> None:
    early = Early(lambda batch: failed_early(provider, batch))
    assert bought_once(world(), early, a_file(experiment_file, provider))


@pytest.mark.parametrize("provider", ["azure", "groq", "together"])
def test_answers_that_are_never_shown_beside_errors_are_held_and_used_when_they_turn_up(
    world: Worlds, experiment_file: ExperimentFile, provider: str
) -> None:
    def without_answers(batch: Shown) -> Shown:
        return {**batch, "output_file_id": None, "request_counts": None}

    here = world("line.400=0.2*1")
    early = Early(lambda _: None, always=without_answers)
    worker = here.beside(transport=early)
    (run,) = submitted(worker, a_file(experiment_file, provider))
    end = resume(worker, [run], interval=60)
    assert (end.is_open, end.moves_by_itself, len(here.simulator.ledger.creates)) == (True, False, 1)
    assert "shows errors of 3 of its 15 requests and no answers" in end.reasons[0]
    (later,) = here.worker.runs(run.experiment.name)
    held = only_batch(later)
    adopt_by_hand(later, held, str(held.remote_id))
    assert not resume(here.worker, [later], interval=60).is_open
    assert (counts(here.worker)["ok"], len(here.simulator.ledger.creates)) == (12, 1)
    here.check()
