"""`sessiond artifact`: point to artifacts by their names, and list them."""

from __future__ import annotations

from collections.abc import Mapping

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import NULL, answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, table


@click.command(
    "artifact",
    cls=Command,
    examples=(
        "sessiond artifact my-session feature-branch refs/heads/feat/register",
        "sessiond artifact my-session",
        "sessiond artifact my-session feature-branch --remove",
    ),
)
@shared_options
@session_argument
@click.argument("name", required=False)
@click.argument("path", required=False)
@click.option("--remove", is_flag=True, help="Remove NAME.")
def artifact(
    shared: Shared, session: str, name: str | None, path: str | None, *, remove: bool
) -> None:
    """Point to an artifact of SESSION by NAME; without NAME, list the artifacts."""
    if name is not None and (path is None) is not remove:
        raise click.UsageError("give a PATH for the artifact, or --remove")
    with connected(shared) as client:
        found = session_id(client, session)
        if name is None:
            done = ask(client, "session/brief", session_id=found)
        else:
            done = ask(client, "session/artifact", session_id=found, name=name, path=path or NULL)
    answer(shared, done, lambda result: _show(result["state"]["artifacts"]))


def _show(artifacts: Mapping[str, str]) -> None:
    table(("NAME", "PATH"), sorted(artifacts.items()))
    if not artifacts:
        note("there is no artifact: add one with `sessiond artifact SESSION NAME PATH`")


COMMAND = artifact
