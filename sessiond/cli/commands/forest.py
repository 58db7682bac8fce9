"""`sessiond forest`: draw the descent of sessions."""

from __future__ import annotations

import re
from typing import Final

import click

from sessiond.cli.arguments import SESSION, project_options
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import drawing, is_terminal
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import short_session_ids

# The connectors of the drawing, then an id.
_ROW: Final = re.compile(r"^([│├└─ ]*)([^ \n]+)", re.MULTILINE)


@click.command(
    "forest",
    cls=Command,
    examples=(
        "sessiond forest",
        "sessiond forest --here",
        "sessiond forest my-session",
        "sessiond forest --layout",
        "sessiond forest --form nodes --json",
    ),
)
@shared_options
@project_options
@pager_option
@click.option(
    "--form",
    type=click.Choice(["text", "nodes"]),
    default="text",
    show_default=True,
    help="text is a drawing, nodes are JSON.",
)
@click.option(
    "--layout",
    is_flag=True,
    help="Draw as `sessiond tree` does: only forks indent. Nodes get their places.",
)
@click.argument("session", required=False, type=SESSION)
def forest(
    shared: Shared, session: str | None, form: str, *, layout: bool, cwd: str | None
) -> None:
    """Draw which session was forked, merged or rebased from which.

    The forest of all sessions, of a project, or the one tree that holds SESSION.
    """
    if session is not None and cwd is not None:
        raise click.UsageError("give a SESSION or a project (--cwd, --here), not both")
    shared = shared._replace(as_json=shared.as_json or form != "text")
    with connected(shared) as client:
        of = None if session is None else session_id(client, session)
        drawn = ask_long(client, "catalog/forest", session_id=of, cwd=cwd, form=form, layout=layout)
    answer(shared, drawn, lambda result: drawing(_with_short_ids(result["text"])))


def _with_short_ids(text: str) -> str:
    """Return the drawing with the ids of sessions as a terminal shows them."""
    if not is_terminal():
        return text
    shown = short_session_ids(found[2] for found in _ROW.finditer(text))
    return _ROW.sub(lambda found: found[1] + shown[found[2]], text)


COMMAND = forest
