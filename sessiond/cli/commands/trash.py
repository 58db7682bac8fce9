"""`sessiond trash`: list the deleted sessions."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.connect.conversation import answer, ask, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say, table

_ROWS = 50


@click.command(
    "trash", cls=Command, examples=("sessiond trash", "sessiond trash --limit 10 --json")
)
@shared_options
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1),
    default=_ROWS,
    show_default=True,
    help="Most sessions to list.",
)
@click.option("--cursor", help="Cursor of the page before.")
def trash(shared: Shared, *, limit: int, cursor: str | None) -> None:
    """List the deleted sessions, those created last first.

    `sessiond restore ID` brings a session back, `sessiond purge ID` removes it for good.
    """
    with connected(shared) as client:
        found = ask(client, "session/trash", limit=limit, cursor=cursor)
    answer(shared, found, _show)


def _show(page: dict[str, Any]) -> None:
    if not page["sessions"]:
        say("the trash is empty")
        return
    rows = [
        (one["session_id"], one["title"] or "-", one["origin"] or one["path"])
        for one in page["sessions"]
    ]
    table(("ID", "TITLE", "LAY AT"), rows)
    if page["next_cursor"] is not None:
        click.echo(f"There are more sessions: --cursor {page['next_cursor']}", err=True)


COMMAND = trash
