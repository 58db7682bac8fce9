"""`sessiond forest`: which session came from which."""

from __future__ import annotations

import click

from sessiond.cli.arguments import SESSION, project_options
from sessiond.cli.asking import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say

__all__ = ["COMMAND"]


@click.command(
    "forest",
    cls=Command,
    examples=(
        "sessiond forest",
        "sessiond forest --here",
        "sessiond forest my-session",
        "sessiond forest --form nodes --json",
    ),
)
@shared_options
@project_options
@click.option(
    "--form",
    type=click.Choice(["text", "nodes"]),
    default="text",
    show_default=True,
    help="nodes are JSON.",
)
@click.argument("session", required=False, type=SESSION)
def forest(shared: Shared, session: str | None, form: str, *, cwd: str | None) -> None:
    """Draw which session was forked, merged or rebased from which: all, a project's, or the one
    tree that SESSION stands in.
    """
    if session is not None and cwd is not None:
        raise click.UsageError("give a SESSION or a project, not both")
    shared = shared._replace(as_json=shared.as_json or form != "text")
    with connected(shared) as client:
        of = None if session is None else session_id(client, session)
        drawn = ask_long(client, "catalog/forest", session_id=of, cwd=cwd, form=form)
    answer(shared, drawn, lambda result: say(result["text"].removesuffix("\n")))


COMMAND = forest
