"""Output of a command on standard output: a JSON document, text, or a table.

Law: JSON for programs holds every value unchanged; text for people has control characters
spelled out. Colours and boxes are for terminals, and rich is imported only there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from sessiond.cli.ui.text import cells, fitted, one_line
from sessiond.visible import spelled_out

if TYPE_CHECKING:
    from rich.table import Table

# Least width of a column that may be cut: fewer characters tell nothing.
_CUT_MIN: Final = 14
_GAP: Final = "  "
# On a terminal with fewer columns the last cell gets a line of its own.
_NARROW: Final = 60


def is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return get_terminal_size().columns


def emit(document: Any) -> None:
    """Print one JSON document: indented on a terminal, else one line."""
    emit_raw(msgspec.json.encode(document))


def emit_raw(document: bytes) -> None:
    """Print one document of JSON bytes; programs get the bytes unchanged."""
    if is_terminal():
        click.echo(spelled_out(msgspec.json.format(document, indent=2).decode()))
    else:
        click.echo(document)


def emit_line(document: bytes) -> None:
    """Print one of several JSON documents, each in one line."""
    click.echo(spelled_out(document.decode()) if is_terminal() else document)


def say(text: str) -> None:
    """Print one or more lines for people."""
    click.echo(spelled_out(text))


def drawing(text: str, kept: re.Pattern[str] | None = None) -> None:
    """Print a drawing; a terminal's lines are cut, except the end that `kept` matches.

    A pager shows the whole lines and scrolls sideways.
    """
    lines = [spelled_out(line).replace("\t", " ") for line in text.removesuffix("\n").split("\n")]
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
    """Print a line on standard error, beside the answer."""
    # Imported here: most answers stand alone.
    from sessiond.cli.ui.command_terms import placed

    click.echo(spelled_out(placed(text)), err=True)


def columns(words: Sequence[str], widths: Sequence[int] = (), *, last_is_cut: bool = True) -> None:
    """Print one line of cells: with tabs for programs, aligned on a terminal.

    `widths` are the least widths of the first cells. The last cell is cut if the line has no room; on
    a narrow terminal the last cell has a line of its own.
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
    """Print rows: aligned under headings on a terminal, else with tabs and without headings.

    Only the columns named by `cut` lose their ends. If the other columns leave no room for these,
    each row becomes several lines.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        for row in shown:
            click.echo("\t".join(row))
    elif least_width(headings, shown, cut) > terminal_width():
        for row in shown:
            _stacked(headings, row, cut)
    else:
        from rich.console import Console

        Console(highlight=False).print(grid(headings, shown, cut))


def least_width(headings: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str]) -> int:
    """Return the least number of columns that a table needs."""
    needed = len(_GAP) * (len(headings) - 1)
    for at, heading in enumerate(headings):
        width = max((cells(row[at]) for row in rows), default=0)
        needed += max(len(heading), min(width, _CUT_MIN) if heading in cut else width)
    return needed


def _stacked(headings: Sequence[str], row: Sequence[str], cut: Sequence[str]) -> None:
    """Print a row as lines: the uncut cells first, then one line per cut cell."""
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


def grid(headings: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str]) -> Table:
    """Return rows, of one line each, aligned under headings."""
    from rich.table import Table
    from rich.text import Text

    # rich obeys NO_COLOR for colours, but not for bold text.
    drawn = Table(
        box=None, pad_edge=False, header_style="" if os.environ.get("NO_COLOR") else "bold"
    )
    for at, heading in enumerate(headings):
        # rich narrows wrapping columns first; the cells themselves never wrap.
        width = max((cells(row[at]) for row in rows), default=0)
        least = min(width, _CUT_MIN) if heading in cut else width
        drawn.add_column(heading, no_wrap=heading not in cut, min_width=max(least, len(heading)))
    for row in rows:
        drawn.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    return drawn
