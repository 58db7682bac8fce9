"""What a command prints on standard output: a JSON document, text, or a table.

Law: JSON for programs has every value as it came; text for people has control characters
spelled out. Colours and boxes are for terminals, and rich is imported only there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from sessiond.cli.text import one_line, printable

__all__ = ["emit", "emit_line", "emit_raw", "is_terminal", "say", "table"]


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


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


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, cut: Sequence[str] = ()
) -> None:
    """Aligned under headings on a terminal; else one line a row, with tabs and no headings.

    On a narrow terminal the columns named by `cut` lose their ends before any other does.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    if not is_terminal():
        for row in cells:
            click.echo("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # rich heeds NO_COLOR for colours, but not for weight.
    drawn = Table(
        box=None, pad_edge=False, header_style="" if os.environ.get("NO_COLOR") else "bold"
    )
    # What a row is called by is shown whole, whatever becomes of the rest on a narrow terminal.
    name_width = max((len(row[0]) for row in cells), default=0)
    for column in columns:
        # A column that may wrap is the first that rich makes narrower; no cell wraps.
        drawn.add_column(column, no_wrap=column not in cut)
    drawn.columns[0].min_width = name_width
    for row in cells:
        drawn.add_row(*(Text(cell, no_wrap=True, overflow="ellipsis") for cell in row))
    Console(highlight=False).print(drawn)
