"""A provider that never existed: a real HTTP server that speaks the providers' wires and knows the true ranking.

It is an independent oracle: it shares no code of the wires with the clients it tests, and its ledger says what was
billed. `faults` lists what can be made to go wrong, `settings` what can be set; a new provider is
one module in `wires`.
"""

from pipeline.simulator.app import build_app
from pipeline.simulator.faults import Fault, parse_faults
from pipeline.simulator.server import Simulator, environment, serve
from pipeline.simulator.settings import SimulatorSettings

__all__ = ["Fault", "Simulator", "SimulatorSettings", "build_app", "environment", "parse_faults", "serve"]
