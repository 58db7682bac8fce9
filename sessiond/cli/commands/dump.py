"""`sessiond dump`: print a session file line by line."""

from __future__ import annotations

import click
import msgspec

from sessiond.cli.arguments import SESSION
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import columns, emit_line
from sessiond.cli.ui.pager import pager_option

# Widths of line, offset, size, type, id and parent.
_WIDTHS = (4, 8, 6, 12, 8, 8)


@click.command(
    "dump",
    cls=Command,
    examples=("sessiond dump session.jsonl", "sessiond dump my-session-id --content"),
)
@shared_options
@click.argument("session", metavar="FILE|SESSION", type=SESSION)
@pager_option
@click.option("--content", is_flag=True, help="Also print the first words of each entry.")
def dump(shared: Shared, session: str, *, content: bool) -> None:
    """Print a line for every line of a session file, damaged or not.

    Line, offset, size in bytes, type, id, parent; then the line's problem, if there is one.
    A file, or a session by its id, needs no daemon. With --json: one object per line.
    """
    from sessiond.cli.offline.lines import lines_of
    from sessiond.cli.offline.session_file import session_file

    for line in lines_of(session_file(shared, session), with_preview=content):
        if shared.as_json:
            emit_line(msgspec.json.encode(line))
            continue
        cells = (line.line, line.offset, line.size, line.type, line.id, line.parent_id)
        notes = [f"! {line.problem}"] if line.problem else []
        words = [*("-" if cell is None else str(cell) for cell in cells), *notes]
        if line.preview:
            words.append(line.preview)
        columns(words, _WIDTHS, last_is_cut=bool(notes or line.preview))


COMMAND = dump
