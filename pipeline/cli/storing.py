"""Commands about the store itself: copy it, and see what it takes up."""

from datetime import timedelta
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from pipeline.cli.app import JsonOption, StoreOption, app
from pipeline.cli.helping import Commands
from pipeline.cli.screen import complain, people, print_json, rows, say
from pipeline.clock import SystemClock
from pipeline.operations.moving import Usage, abandoned, copy_store, give_up, usage
from pipeline.settings import from_environment
from pipeline.storage import open_store
from pipeline.wording import counted

store_app = Commands(name="store", help="Copy a store, or see what it takes up.", no_args_is_help=True)
app.add_typer(store_app)


@store_app.command()
def copy(
    source: Annotated[str, typer.Argument(metavar="SRC", help="The store to copy: a path or URL.")],
    target: Annotated[str, typer.Argument(metavar="DST", help="Where to: a path or URL, preferably empty.")],
    as_json: JsonOption = False,
) -> int:
    """Copy a store whole and verify every object; repeat it if it breaks off."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=people, transient=True, disable=not people.is_terminal) as progress:
        bar = progress.add_task("objects", total=None)
        copied = copy_store(
            open_store(source),
            open_store(target),
            clock=SystemClock(),
            tell=lambda done, everything: progress.update(bar, completed=done, total=everything),
        )
    if as_json:
        print_json(copied)
    copies, size = counted(copied.objects, "object"), counted(copied.bytes, "byte")
    say(f"copied {copies}, {size}; {counted(copied.present, 'was', 'were')} already there; all verified")
    if copied.behind:
        written = counted(copied.behind, "commit was", "commits were")
        complain(
            f"{written} written to {source} meanwhile: stop its workers, and repeat the copy before you use {target}, "
            "which would send again what it does not know of",
            title="left",
        )
        return 1
    say("work on one of the two stores only: both know the same open batches")
    return 0


@store_app.command(name="usage")
def show_usage(
    store: StoreOption = None,
    clean: Annotated[bool, typer.Option("--clean", help="Remove what broken-off uploads left behind.")] = False,
    hours: Annotated[
        float, typer.Option("--hours", metavar="N", min=0.0, help="Uploads older than this count as broken off.")
    ] = 24.0,
    as_json: JsonOption = False,
) -> int:
    """Say how many objects and bytes each folder holds, and which uploads broke off."""
    opened, clock = open_store(store or from_environment().store()), SystemClock()
    found = usage(opened)
    left = abandoned(opened, clock=clock, age=timedelta(hours=hours))
    removed = give_up(opened, left) if clean else 0
    if as_json:
        folders = [{"folder": each.folder, "objects": each.objects, "bytes": each.bytes} for each in found]
        print_json({"folders": folders, "abandoned_uploads": len(left), "removed_uploads": removed})
        return 0
    rows(f"store {opened.url}", ["folder", "objects", "bytes"], map(_line, [*found, _sum(found)]), right=1)
    if left and not clean:
        uploads = counted(len(left), "upload")
        say(f"{uploads} broke off and still use space; `pairlog store usage --clean` removes what is left of them")
    elif removed:
        say(f"removed {counted(removed, 'upload')} that broke off")
    return 0


def _sum(found: list[Usage]) -> Usage:
    objects, size = sum(each.objects for each in found), sum(each.bytes for each in found)
    return Usage(folder="all", objects=objects, bytes=size)


def _line(each: Usage) -> list[str]:
    return [each.folder, f"{each.objects:,}", f"{each.bytes:,}"]
