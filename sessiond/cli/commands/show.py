"""`sessiond show`: a session and its last entries."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from msgspec import Raw

from sessiond.cli.arguments import session_argument
from sessiond.cli.asking import ask, connected, session_id
from sessiond.cli.looks import entry_line, facts
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import emit_raw, say

__all__ = ["COMMAND"]

_FIRST = ("id", "title", "cwd", "path", "dialect")


class _Row(msgspec.Struct):
    seq: int
    entry: Raw


class _Path(msgspec.Struct):
    entries: list[_Row]


@click.command(
    "show",
    cls=Command,
    examples=("sessiond show my-session", "sessiond show my-session -n 0 --json"),
)
@shared_options
@session_argument
@click.option("--head", metavar="NAME", help="Whose path.  [default: main]")
@click.option("--entries", "-n", type=click.IntRange(0), default=10, show_default=True)
def show(shared: Shared, session: str, head: str | None, entries: int) -> None:
    """Show what is known of a session, and the last entries of a head's path.

    With --json: {"session": SessionInfo, "entries": [{"seq", "entry", "children", "label"}]}.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        known = ask(client, "session/get", session_id=found)
        # A page has a row at least.
        path = b'{"entries":[]}'
        if entries:
            path = ask(
                client, "session/path", session_id=found, head=head, limit=entries, from_end=True
            )
    if shared.as_json:
        parts = msgspec.json.decode(known, type=dict[str, Raw])
        parts["entries"] = msgspec.json.decode(path, type=dict[str, Raw])["entries"]
        emit_raw(msgspec.json.encode(parts))
        return
    _facts(msgspec.json.decode(known)["session"])
    for row in msgspec.json.decode(path, type=_Path).entries:
        say(entry_line(row.seq, bytes(row.entry)))


def _facts(session: dict[str, Any]) -> None:
    heads = [f"{head['name']} at {head['leaf_id']}" for head in session.pop("heads", ())]
    rest = [(name, value) for name, value in session.items() if name not in _FIRST]
    facts([*((name, session.get(name)) for name in _FIRST), *rest, ("heads", ", ".join(heads))])


COMMAND = show
