"""`sessiond brief`: print what a resumed turn begins with."""

from __future__ import annotations

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command("brief", cls=Command, examples=("sessiond brief my-session",))
@shared_options
@session_argument
def brief(shared: Shared, session: str) -> None:
    """Print a short text for a system prompt: the plan of SESSION and its latest decision."""
    with connected(shared) as client:
        found = session_id(client, session)
        made = ask(client, "session/brief", session_id=found)
    answer(shared, made, lambda result: say(result["context"]))


COMMAND = brief
