"""What a command prints on standard output: a JSON document, text, or a table.

Law: JSON for programs has every value as it came; text for people has control characters
spelled out. Colours and boxes are for terminals, and rich is imported only there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import Any, Final

import click
import msgspec

from sessiond.cli.ui.text import cells, fitted, one_line, printable

__all__ = [
    "columns",
    "drawing",
    "emit",
    "emit_line",
    "emit_raw",
    "is_terminal",
    "note",
    "say",
    "table",
    "terminal_width",
]

# A column that may be cut says something from so many characters on.
_CUT_MIN: Final = 14
_GAP: Final = "  "
# From so few columns on a line of cells and words is two lines.
_NARROW: Final = 60


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Return how many columns the terminal has."""
    return get_terminal_size().columns


def emit(document: Any) -> None:
    """One JSON document: indented on a terminal, else one line."""
    emit_raw(msgspec.json.encode(document))


def emit_raw(document: bytes) -> None:
    """The same, of JSON bytes, which stay what they are."""
    if is_terminal():
        click.echo(printable(msgspec.json.format(document, indent=2).decode()))
    else:
        click.echo(document)


def emit_line(document: bytes) -> None:
    """One of many JSON documents, each in a line."""
    click.echo(printable(document.decode()) if is_terminal() else document)


def say(text: str) -> None:
    """A line or more for people."""
    click.echo(printable(text))


def drawing(text: str, kept: re.Pattern[str] | None = None) -> None:
    """Print a drawing; on a terminal a line is cut, but not what `kept` finds at its end.

    A pager shows the whole lines, and moves sideways.
    """
    lines = [printable(line).replace("\t", " ") for line in text.removesuffix("\n").split("\n")]
    screen: Any = sys.stdout
    if hasattr(screen, "is_drawing") and len(lines) >= get_terminal_size().lines:
        screen.is_drawing = True
    elif is_terminal():
        lines = [_cut_line(line, kept) for line in lines]
    click.echo("\n".join(lines))


def _cut_line(line: str, kept: re.Pattern[str] | None) -> str:
    found = kept.search(line) if kept else None
    end = found[0] if found else ""
    body = line.removesuffix(end)
    return fitted(body, max(terminal_width() - cells(end), _CUT_MIN)) + end


def note(text: str) -> None:
    """Say a line on standard error, beside the answer."""
    click.echo(printable(text), err=True)


def columns(words: Sequence[str], widths: Sequence[int] = (), *, last_is_cut: bool = True) -> None:
    """Print one line of cells: with tabs for programs; on a terminal one below the other.

    `widths` are those of the first cells at least. The last cell is cut where the line has no
    room; on a narrow terminal it has a line of its own.
    """
    row = [one_line(word) for word in words]
    if not is_terminal():
        click.echo("\t".join(row))
        return
    *first, last = row
    padded = [
        cell + " " * (width - cells(cell)) for cell, width in zip(first, widths, strict=False)
    ]
    head = _GAP.join([*padded, *first[len(padded) :]])
    width = terminal_width()
    if not last_is_cut:
        click.echo(_GAP.join([head, last]).rstrip())
    elif width < _NARROW and last:
        click.echo(f"{head.rstrip()}\n{_GAP}{fitted(last, width - len(_GAP))}")
    else:
        click.echo(
            _GAP.join([head, fitted(last, max(width - cells(head) - len(_GAP), 0))]).rstrip()
        )


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, cut: Sequence[str] = ()
) -> None:
    """Aligned under headings on a terminal; else one line a row, with tabs and no headings.

    Only the columns named by `cut` ever lose their ends. Where the others leave no room for
    those, each row becomes a few lines.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        for row in shown:
            click.echo("\t".join(row))
    elif _least_width(headings, shown, cut) > terminal_width():
        for row in shown:
            _stacked(headings, row, cut)
    else:
        _drawn(headings, shown, cut)


def _least_width(headings: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str]) -> int:
    """Return how many columns a table needs at least."""
    needed = len(_GAP) * (len(headings) - 1)
    for at, heading in enumerate(headings):
        width = max((cells(row[at]) for row in rows), default=0)
        needed += max(len(heading), min(width, _CUT_MIN) if heading in cut else width)
    return needed


def _stacked(headings: Sequence[str], row: Sequence[str], cut: Sequence[str]) -> None:
    """Print a row as lines: what is never cut first, then each of the others."""
    width = terminal_width()
    line = row[0]
    for heading, cell in list(zip(headings, row, strict=True))[1:]:
        if heading in cut or not cell:
            continue
        word = f"{heading.lower()} {cell}"
        if cells(line) + len(_GAP) + cells(word) > width:
            click.echo(line)
            line = ""
        line += _GAP + word
    click.echo(line)
    for heading, cell in zip(headings, row, strict=True):
        if heading in cut and cell:
            click.echo(_GAP + fitted(cell, width - len(_GAP)))


def _drawn(headings: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # rich heeds NO_COLOR for colours, but not for weight.
    drawn = Table(
        box=None, pad_edge=False, header_style="" if os.environ.get("NO_COLOR") else "bold"
    )
    for at, heading in enumerate(headings):
        # A column that may wrap is the first that rich makes narrower; no cell wraps.
        width = max((cells(row[at]) for row in rows), default=0)
        least = min(width, _CUT_MIN) if heading in cut else width
        drawn.add_column(heading, no_wrap=heading not in cut, min_width=max(least, len(heading)))
    for row in rows:
        drawn.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    Console(highlight=False).print(drawn)
