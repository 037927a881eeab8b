"""How commands are called, their help, and what is said of wrong values: in the reference's words, not Python's."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType

from pipeline.errors import ConfigError
from pipeline.wording import remedy

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

_NUMBERS = {int: "a whole number", float: "a number"}


class Command(TyperCommand):
    """A command whose usage line is that of the reference: `pairlog plan [OPTIONS] FILE`."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:
        """Return what follows the command's name, without braces around what must be given."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Refuse an option that is given twice: the library would drop all of its values but the last."""
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for param, times in Counter(given).items():
            if times > 1 and isinstance(param, TyperOption) and not param.is_flag:
                raise ConfigError(f"{param.opts[0]} is given {times} times, and only one value can count")
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if isinstance(error.param, TyperOption) and error.param.name in values:
                raise ConfigError(_refused(error.param, values[error.param.name], error)) from error
            raise

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        """Write arguments by their names alone, then the options."""
        records = [(param.param_type_name, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [record for one, record in records if one == kind and record is not None]
            rows = [(name.partition(" <")[0], said) for name, said in rows] if kind == "argument" else rows
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _refused(option: TyperOption, value: object, error: typer.BadParameter) -> str:
    """Return what is wrong with the value of an option, and what it takes."""
    kind = option.type_descriptor
    named = f"{option.opts[0]} {value!r}"
    if kind.is_choice:
        return f"{named} is not known; {remedy(str(value), map(str, kind.choices or ()))}"
    if kind.annotation in _NUMBERS and error.__cause__ is not None:
        return f"{named} is not {_NUMBERS[kind.annotation]}{_within(kind.parameter_info.min, kind.parameter_info.max)}"
    return f"{option.opts[0]}: {error.message.rstrip('.')}"


def _within(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f" of at least {least:g}" if most is None else f" from {least:g} to {most:g}"


class Commands(typer.Typer):
    """Commands that write their help so."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Add a command."""
        return super().command(name, **{"cls": Command, **options})
