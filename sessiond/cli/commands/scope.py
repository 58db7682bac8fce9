"""`sessiond scope`: print the session of a scope, or switch from one project to another."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import FOLDER, absolute
from sessiond.cli.connect.conversation import answer, ask, ask_long, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, say


@click.command(
    "scope",
    cls=Command,
    examples=(
        "sessiond scope global",
        "sessiond scope assistant --agent brainstorm",
        "sessiond scope project",
        "sessiond scope project --agent coder --project . --from /tmp",
    ),
)
@shared_options
@click.option(
    "--agent",
    metavar="NAME",
    help="Agent of the session; an assistant has one session, a project one for each agent.",
)
@click.option(
    "--project", type=FOLDER, help="Folder of the project.  [default: this folder, for project]"
)
@click.option(
    "--from",
    "from_project",
    type=FOLDER,
    help="Switch: save and unload the sessions of the project in this folder first.",
)
@click.argument("scope", type=click.Choice(["global", "assistant", "project"]))
def scope(shared: Shared, scope: str, *, from_project: str | None, **names: Any) -> None:
    """Print the id of the one session of a scope, created when missing.

    The sessions that a switch leaves stay where they are: a switch deletes nothing.
    """
    if scope == "assistant" and names["agent"] is None:
        raise click.UsageError("an assistant has a name: give --agent")
    if scope == "project":
        names["project"] = names["project"] or absolute(".")
    elif names["project"] is not None:
        raise click.UsageError("--project is for the scope project only")
    with connected(shared) as client:
        if from_project is None:
            found = ask(client, "scope/resolve", scope=scope, **names)
        else:
            found = ask_long(
                client, "scope/switch", scope=scope, from_project=from_project, **names
            )
    answer(shared, found, _show)


def _show(result: dict[str, Any]) -> None:
    say(result["session"]["id"])
    for one in result.get("failed", []):
        note(f"not loaded: {one['session_id']}: {one['message']}")


COMMAND = scope
