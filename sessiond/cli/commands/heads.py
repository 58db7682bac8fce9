"""`sessiond heads`: where the heads of a session stand."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.asking import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import table

__all__ = ["COMMAND"]


@click.command("heads", cls=Command, examples=("sessiond heads my-session",))
@shared_options
@session_argument
def heads(shared: Shared, session: str) -> None:
    """List the heads of a session, main first: each one's leaf and the line that moved it last.

    `sessiond branch` makes, moves and drops them.
    """
    with connected(shared) as client:
        found = ask(client, "session/heads", session_id=session_id(client, session))
    answer(shared, found, _show)


def _show(result: dict[str, Any]) -> None:
    rows = [(head["name"], head["leaf_id"] or "null", str(head["seq"])) for head in result["heads"]]
    table(("HEAD", "LEAF", "SEQ"), rows, cut=("LEAF",))


COMMAND = heads
