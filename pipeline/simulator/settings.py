"""What can be set about the simulator before it starts.

Faults can also be changed while it runs; everything else stays as it was given.
"""

from collections.abc import Mapping

import msgspec

from pipeline.simulator.faults import Fault


class SimulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a simulator that a person or a test decides.

    `qualities` gives the hidden quality of a text, `skills` how good the texts are that a model writes; what is not
    given follows from the text or the name. `sharpness` scales the difference of two, `bias` is the logit added
    for whichever text stands first, `tie_rate` and `abstain_rate` the shares of ties and of answers that the question
    does not apply, where the prompt allows them.
    `latency_seconds` is how long a batch takes from creation to its end; 0 ends it at the next poll, or moves it
    by one status a poll if `walk` is set. A latency beyond `window_seconds` makes batches expire.
    No `api_keys` means that any key will do, no `models` that any model exists. `max_requests` and `max_bytes` replace
    the provider's own limits. `patience_seconds` is how long a poll waits for work that is being done right now.
    """

    port: int = 0
    seed: int = 0
    qualities: Mapping[str, float] = {}
    skills: Mapping[str, float] = {}
    bias: float = 0.0
    sharpness: float = 1.0
    tie_rate: float = 0.0
    abstain_rate: float = 0.0
    latency_seconds: float = 0.0
    window_seconds: float = 86_400.0
    walk: bool = False
    shuffle: bool = True
    api_keys: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_requests: int | None = None
    max_bytes: int | None = None
    patience_seconds: float = 2.0
    faults: Mapping[str, Fault] = {}
    ledger_path: str | None = None
