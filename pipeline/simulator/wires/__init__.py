"""The wires: one module (or package) a provider, found by being here.

Each has `routes(engine)`, which returns its routes and registers its `Lines` with the engine. Every wire but OpenAI's
has a prefix of its own. Names that begin with an underscore are not wires.
"""

import importlib
import pkgutil

from starlette.routing import BaseRoute, Route

from pipeline.simulator.engine import Engine

_ALSO_AT_ROOT = ("anthropic", "gemini", "ollama", "vertex")  # their paths meet nobody else's


def all_routes(engine: Engine) -> list[BaseRoute]:
    """Return the routes of every wire; those that meet nobody else's also without their prefix."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_"))
    routes = {name: importlib.import_module(f"{__name__}.{name}").routes(engine) for name in names}
    plain = [
        Route(route.path.removeprefix(f"/{name}"), route.endpoint, methods=list(route.methods or ()))
        for name in _ALSO_AT_ROOT
        for route in routes[name]
        if isinstance(route, Route) and route.path.startswith(f"/{name}/")
    ]
    return [*(route for name in names for route in routes[name]), *plain]
