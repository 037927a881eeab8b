"""Providers whose paths meet nobody else's can be reached at the simulator's plain address."""

import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from pipeline.simulator import Simulator, environment


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("/v1/messages/batches", "x-api-key"),
        ("/v1beta/batches", "x-goog-api-key"),
        ("/v1/projects/p/locations/global/batchPredictionJobs", "authorization"),
        ("/api/tags", "authorization"),
        ("/v1/batches", "authorization"),
    ],
)
def test_a_plain_address_is_enough(simulate: Callable[..., Simulator], path: str, header: str) -> None:
    headers = {header: "Bearer k" if header == "authorization" else "k", "anthropic-version": "2026-10-21"}
    request = urllib.request.Request(simulate().url + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def test_what_to_export_is_where_the_wires_are(simulate: Callable[..., Simulator]) -> None:
    simulator = simulate()
    exported = environment(simulator.url)
    assert exported["ANTHROPIC_BASE_URL"] == simulator.anthropic_base_url
    assert exported["OPENAI_BASE_URL"] == simulator.openai_base_url
    assert exported["GOOGLE_GEMINI_BASE_URL"] == simulator.gemini_base_url
