"""Pairlog's library: pairwise LLM-judge studies on an append-only event log.

It knows no Dagster; `assets` tells Dagster about it. In Python one begins with `open_study` and `studies`, which
`pipeline.notebook` has; they are loaded when they are asked for, so that importing this package stays cheap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.notebook import open_study, studies

    __version__: str

__all__ = ["__version__", "open_study", "studies"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only where it is asked for

        return version("pairlog")
    if name in __all__:
        import pipeline.notebook  # noqa: PLC0415 - it loads pyarrow

        return getattr(pipeline.notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
