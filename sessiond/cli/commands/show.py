"""`sessiond show`: show a session and its last entries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import ask, connected, read, session_id
from sessiond.cli.entry_refs import short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import emit_raw
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import entry_line, entry_of, facts

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
@click.option("--head", metavar="NAME", help="Head whose path is shown.  [default: main]")
@click.option(
    "--entries",
    "-n",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Most entries to show.",
)
@pager_option
def show(shared: Shared, session: str, head: str | None, entries: int) -> None:
    """Show the fields of a session, and the last entries of a head's path.

    With --json: {"session": SessionInfo, "entries": [{"seq", "entry", "children", "label"}]}.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        known = ask(client, "session/get", session_id=found)
        # A page of session/path has one row at least, so none is asked for.
        path = b'{"entries":[]}'
        if entries:
            path = ask(
                client, "session/path", session_id=found, head=head, limit=entries, from_end=True
            )
        rows = typed.decode(path, _Path).entries
        about = read(known)["session"]
        named = [*(entry_of(bytes(row.entry)) for row in rows), *_leaves(about)]
        shown = short_ids(client, found, () if shared.as_json else named)
    if shared.as_json:
        parts = typed.decode(known, dict[str, Raw])
        parts["entries"] = typed.decode(path, dict[str, Raw])["entries"]
        emit_raw(msgspec.json.encode(parts))
        return
    _facts(about, shown)
    for row in rows:
        entry_line(row.seq, bytes(row.entry), shown[entry_of(bytes(row.entry))])


def _leaves(session: dict[str, Any]) -> list[str | None]:
    return [session.get("leaf_id"), *(head["leaf_id"] for head in session.get("heads", ()))]


def _facts(session: dict[str, Any], shown: Mapping[str | None, str]) -> None:
    heads = [f"{head['name']} at {shown[head['leaf_id']]}" for head in session.pop("heads", ())]
    if session.get("leaf_id") is not None:
        session["leaf_id"] = shown[session["leaf_id"]]
    rest = [(name, value) for name, value in session.items() if name not in _FIRST]
    facts([*((name, session.get(name)) for name in _FIRST), *rest, ("heads", ", ".join(heads))])


COMMAND = show
