"""How the commands' help is written: in the words of the reference, without the names of Python's types."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand
from typer.models import CommandFunctionType

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


class Command(TyperCommand):
    """A command whose usage line is that of the reference: `pairlog plan [OPTIONS] FILE`."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        """Return what follows the command's name, without braces around what must be given."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write arguments by their names alone, then the options."""
        records = [(param.param_type_name, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [record for one, record in records if one == kind and record is not None]
            rows = [(name.partition(" <")[0], said) for name, said in rows] if kind == "argument" else rows
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Commands(typer.Typer):
    """Commands that write their help so."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Add a command."""
        return super().command(name, **{"cls": Command, **options})
