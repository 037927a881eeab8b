"""The Dagster code location: what `pipeline` does, as assets, checks, sensors and jobs; it decides nothing itself."""

from assets.definitions import defs

__all__ = ["defs"]
