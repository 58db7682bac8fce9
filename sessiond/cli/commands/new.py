"""`sessiond new`: make a session."""

from __future__ import annotations

import re
from typing import Any

import click

from sessiond.cli.arguments import FOLDER, TEXT
from sessiond.cli.connect.conversation import answer, ask, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.model.ids import SESSION_ID_PATTERN


def _checked_id(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.match(SESSION_ID_PATTERN, value):
        raise click.BadParameter("an id has 8 to 128 characters of A-Z a-z 0-9 _ -")
    return value


@click.command(
    "new",
    cls=Command,
    examples=(
        'sessiond new --title "tidy up"',
        "sessiond new --cwd /tmp --id tidy-up-2 --tag chore",
    ),
)
@shared_options
@click.option(
    "--cwd", type=FOLDER, default=".", help="Project of the session.  [default: this folder]"
)
@click.option(
    "--id",
    "session_id",
    metavar="ID",
    callback=_checked_id,
    help="Id of the session: 8 to 128 characters of A-Z a-z 0-9 _ -",
)
@click.option("--title", "-t", help="Title of the session.")
@click.option("--agent", help="Agent of the session.")
@click.option("--model", help="Model of the session.")
@click.option("--tag", "tags", multiple=True, help="Tag of the session.")
@click.option("--system-prompt", type=TEXT, help="System prompt of the model.")
@click.option(
    "--persist",
    type=click.Choice(["immediate", "on_assistant", "never"]),
    default="immediate",
    show_default=True,
    help="When the session becomes a listed file; never: it ends with the daemon.",
)
@click.option(
    "--root",
    type=FOLDER,
    help="Root to make the file in, as its program would: see `sessiond roots`.",
)
@click.option("--open", "may_exist", is_flag=True, help="Open the session if the id exists.")
def new(shared: Shared, *, tags: tuple[str, ...], may_exist: bool, **params: Any) -> None:
    """Make a session and print its id."""
    if_exists = "open" if may_exist else "fail"
    with connected(shared) as client:
        made = ask(client, "session/create", **params, tags=list(tags) or None, if_exists=if_exists)
    answer(shared, made, lambda result: say(result["session"]["id"]))


COMMAND = new
