"""How commands are called, and how their help is written: in the words of the reference, not of Python's types."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter


class Command(TyperCommand):
    """A command whose usage line is that of the reference: `pairlog plan [OPTIONS] FILE`."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        """Return what follows the command's name, without braces around what must be given."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Refuse an option that is given twice: the library would drop all of its values but the last."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for param, times in Counter(given).items():
            if times > 1 and isinstance(param, TyperOption) and not param.is_flag:
                raise typer.BadParameter(f"given {times} times, and only one value can count.", ctx=ctx, param=param)
        return super().parse_args(ctx, args)

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
