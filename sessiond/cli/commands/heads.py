"""`sessiond heads`: list the heads of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, find, read
from sessiond.cli.entry_refs import short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import table


@click.command("heads", cls=Command, examples=("sessiond heads my-session",))
@shared_options
@session_argument
def heads(shared: Shared, session: str) -> None:
    """List the heads of a session, main first: each head's leaf and the line that moved it last.

    A pipe gets a line for each head, with tabs and without headings: name, leaf, seq. `sessiond
    branch` creates, moves and drops heads.
    """
    with connected(shared) as client:
        session_id = find(client, session)["id"]
        found = ask(client, "session/heads", session_id=session_id)
        heads = read(found)["heads"]
        shown = short_ids(client, session_id, (head["leaf_id"] for head in heads))
    answer(shared, found, lambda result: _show(result, shown))


def _show(result: dict[str, Any], shown: Mapping[str | None, str]) -> None:
    rows = [(head["name"], shown[head["leaf_id"]], str(head["seq"])) for head in result["heads"]]
    table(("HEAD", "LEAF", "SEQ"), rows)


COMMAND = heads
