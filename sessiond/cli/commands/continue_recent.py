"""`sessiond continue`: print the latest session of a project."""

from __future__ import annotations

import click

from sessiond.cli.arguments import FOLDER
from sessiond.cli.connect.conversation import answer, ask, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command("continue", cls=Command, examples=("sessiond continue",))
@shared_options
@click.option(
    "--cwd", type=FOLDER, default=".", help="Folder of the project.  [default: this folder]"
)
def continue_recent(shared: Shared, cwd: str) -> None:
    """Print the id of the latest session of a project, or of a new one if it has none."""
    with connected(shared) as client:
        found = ask(client, "session/continue_recent", cwd=cwd)
    answer(shared, found, lambda result: say(result["session"]["id"]))


COMMAND = continue_recent
