"""The wires: one module (or package) a provider, found by being here.

Each has `routes(engine)`, which returns its routes and registers its `Lines` with the engine. A wire that shares paths
with another takes a prefix of its own. Names that begin with an underscore are not wires.
"""

import importlib
import pkgutil

from starlette.routing import BaseRoute

from pipeline.simulator.engine import Engine


def all_routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of every wire."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    modules = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return [route for module in modules for route in module.routes(engine)]
