"""`sessiond tail`: print the last entries of a session, and follow new ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import ask, connected, find
from sessiond.cli.entry_refs import short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import emit_line, note
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import entry_line, entry_of

if TYPE_CHECKING:
    from sessiond_client import BlockingClient, BlockingSubscription


class _At(msgspec.Struct):
    seq: int
    entry: Raw


class _Page(msgspec.Struct):
    entries: list[_At]
    seq: int


@click.command(
    "tail",
    cls=Command,
    examples=("sessiond tail my-session", "sessiond tail -n 3 --json my-session"),
)
@shared_options
@session_argument
@click.option("--follow", "-f", is_flag=True, help="Go on with new entries.")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(0),
    default=10,
    show_default=True,
    help="Stored entries to print.",
)
@pager_option
def tail(shared: Shared, session: str, lines: int, *, follow: bool) -> None:
    """Print the last entries of a session, one line each, in the order they were stored.

    A line is: seq, id, type or role, first words. With --json it is {"seq", "entry"}, the
    entry byte for byte. With --follow it goes on until Ctrl-C (exit status 130), also over a
    restart of the daemon: every entry comes once.
    """
    with connected(shared) as client:
        known = find(client, session)
        page = _last(client, known["id"], lines)
        _print(shared, client, known["id"], page.entries[::-1])
        if follow:
            sys.stdout.flush()
            _follow(shared, client, known, page.seq)


def _last(client: BlockingClient, session_id: str, lines: int) -> _Page:
    """Return the latest entries, newest first, and the seq up to which they are complete."""
    ask_for = {"session_id": session_id, "before_seq": 2**53 - 1, "limit": max(lines, 1)}
    page = typed.decode(ask(client, "session/entries", **ask_for), _Page)
    page.entries = page.entries[:lines]
    return page


def _follow(shared: Shared, client: BlockingClient, known: dict[str, str], seq: int) -> None:
    """Follow the session; resume after a close of the session, such as a repair or an archiving.

    If the session was deleted, the next subscription raises the daemon's error.
    """
    from sessiond_client import Cursor

    position: Cursor | None = Cursor(seq, epoch=known["epoch"])
    while True:
        with client.subscribe(known["id"], after=position) as events:
            _print_events(shared, client, known["id"], events)
            position = events.position


def _print_events(
    shared: Shared, client: BlockingClient, session_id: str, events: BlockingSubscription
) -> None:
    """Print events until the session is closed."""
    from sessiond_client import EntryEvent, Notice, Replaced

    for event in events:
        if isinstance(event, EntryEvent):
            _print(shared, client, session_id, [_At(event.seq, event.raw)])
            sys.stdout.flush()
        elif isinstance(event, Replaced):
            note("sessiond: the file was replaced; its entries follow from the start")
        elif isinstance(event, Notice) and event.method == "session/closed":
            return


def _print(shared: Shared, client: BlockingClient, session_id: str, rows: list[_At]) -> None:
    if shared.as_json:
        for at in rows:
            emit_line(b'{"seq":%d,"entry":%s}' % (at.seq, bytes(at.entry)))
        return
    ids = [entry_of(bytes(at.entry)) for at in rows]
    shown = short_ids(client, session_id, ids)
    for entry_id, at in zip(ids, rows, strict=True):
        entry_line(at.seq, bytes(at.entry), shown[entry_id])


COMMAND = tail
