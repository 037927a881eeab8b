"""How wide the columns of a table are where it does not fit, and where names in them are broken.

A name is broken behind a space, hyphen, slash or underscore, so that its parts can be read; numbers never are.
"""

import re
from collections.abc import Sequence

from rich.cells import cell_len

_PIECES = re.compile(r"[^\s\-/_]*[\s\-/_]+|[^\s\-/_]+")
_AROUND_CELL = 3
_EDGE = 1


def fitted(lines: Sequence[Sequence[str]], *, right: int, room: int) -> list[list[str]]:
    """Return the lines, the first of which are the headings, with cells broken so that the table fits into the room.

    Columns from number `right` on hold numbers under headings that may be names: those give way before the names in
    the other columns do. Where nothing of this helps, the lines are left to whoever prints them.
    """
    columns = list(zip(*lines, strict=True))
    widths = [max(map(cell_len, column)) for column in columns]
    least = [_narrowest(column, is_number=number >= right) for number, column in enumerate(columns)]
    spare = room - _EDGE - _AROUND_CELL * len(columns)
    if sum(widths) <= spare or sum(least) > spare:
        return [list(line) for line in lines]
    for some in (range(right, len(columns)), range(min(right, len(columns)))):
        while sum(widths) > spare and (wide := [at for at in some if widths[at] > least[at]]):
            widths[max(wide, key=widths.__getitem__)] -= 1
    return [[_broken(cell, width) for cell, width in zip(line, widths, strict=True)] for line in lines]


def _narrowest(column: Sequence[str], *, is_number: bool) -> int:
    heading, *cells = column
    widest = cell_len if is_number else _longest_piece
    return max([_longest_piece(heading), *(widest(cell) for cell in cells)])


def _longest_piece(text: str) -> int:
    return max((cell_len(piece.rstrip()) for piece in _PIECES.findall(text)), default=0)


def _broken(text: str, width: int) -> str:
    """Return the text in lines of this width, which no piece of it exceeds."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
