"""`sessiond rename`: give a session a title."""

from __future__ import annotations

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, whole_session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command("rename", cls=Command, examples=("sessiond rename my-session my-session",))
@shared_options
@session_argument
@click.argument("title")
def rename(shared: Shared, session: str, title: str) -> None:
    """Give a session a title.

    A part of the present title names no session here: give the whole title, or an id.
    """
    with connected(shared) as client:
        found = whole_session_id(client, session)
        changed = ask(client, "session/update", session_id=found, title=title)
    answer(shared, changed, lambda result: say(result["session"]["id"]))


COMMAND = rename
