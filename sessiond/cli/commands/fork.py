"""`sessiond fork`: make a session from the entries of another."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import FOLDER, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, read, session_id
from sessiond.cli.entry_refs import entry_or_null
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note
from sessiond.cli.ui.render import copy_made, copy_planned
from sessiond.model.formats import FORMATS


@click.command(
    "fork",
    cls=Command,
    examples=(
        "sessiond fork my-session",
        "sessiond fork my-session --at entry-1",
        "sessiond fork my-session --entries all --detached --cwd .",
        "sessiond fork my-session --for pi",
    ),
)
@shared_options
@session_argument
@click.option(
    "--entries",
    type=click.Choice(["path", "all", "context", "none"]),
    help="Entries to take: the path, all branches, the model's context, or none.  [default: path]",
)
@click.option("--at", metavar="ENTRY", help='End of the path ("null": before the first entry).')
@click.option(
    "--at-message", type=int, metavar="N", help="End of the path as a message's index, from 0."
)
@click.option(
    "--keep-messages",
    type=int,
    metavar="N",
    help="With --entries context: take its first N messages.",
)
@click.option("--detached", is_flag=True, help="Do not record the origin in the fork.")
@click.option("--labels/--no-labels", default=None, help="Take the labels along.  [default: yes]")
@click.option("--state", is_flag=True, default=None, help="Take plan, tags and decisions along.")
@click.option(
    "--for",
    "dialect",
    type=click.Choice(FORMATS),
    help="Program that is to go on: write the fork in its format.  [default: as SESSION]",
)
@click.option(
    "--root",
    type=FOLDER,
    help="Root to make the fork in, as its program would: see `sessiond roots`.  [default: as SESSION]",
)
@click.option("--cwd", type=FOLDER, help="Project of the fork.")
@click.option("--title", help="Title of the fork.")
@click.option("--id", "new_session_id", metavar="ID", help="Id of the fork.")
@click.option(
    "--dry-run", is_flag=True, default=None, help="Make nothing, print what the fork would be."
)
def fork(shared: Shared, session: str, *, at: str | None, detached: bool, **params: Any) -> None:
    """Make a session from the entries of SESSION, and print its id. SESSION stays unchanged."""
    if at is not None and params["at_message"] is not None:
        raise click.UsageError("give --at or --at-message, not both")
    if params["keep_messages"] is not None and params["entries"] != "context":
        raise click.UsageError("--keep-messages needs --entries context")
    with connected(shared) as client:
        found = session_id(client, session)
        made = ask_long(
            client,
            "session/fork",
            session_id=found,
            at=entry_or_null(client, found, at),
            link="none" if detached else None,
            **params,
        )
    answer(shared, made, copy_planned if params["dry_run"] else copy_made)
    for lacking in read(made).get("notes", ()):
        note(lacking)


COMMAND = fork
