"""`sessiond tree`: draw the entries of a session as a tree."""

from __future__ import annotations

import re
from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.entry_refs import entry_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import drawing, is_terminal
from sessiond.cli.ui.pager import pager_option

_ID = re.compile(r" \([^()\s]+\)$")


@click.command(
    "tree",
    cls=Command,
    examples=(
        "sessiond tree my-session",
        "sessiond tree my-session --ids",
        "sessiond tree my-session --depth 2",
        "sessiond tree my-session --around entry-2",
        "sessiond tree my-session --form flat --json",
    ),
)
@shared_options
@session_argument
@click.option(
    "--form",
    type=click.Choice(["text", "flat", "nested"]),
    default="text",
    show_default=True,
    help="text is a drawing, flat and nested are JSON.",
)
@click.option("--ids", is_flag=True, help="Also show the id of each entry, for branch and label.")
@click.option(
    "--depth",
    type=click.IntRange(0),
    metavar="N",
    help="Leave out entries below more than N forks.",
)
@click.option(
    "--around",
    metavar="ENTRY",
    help="Only ENTRY, its ancestors, its siblings and its descendants.",
)
@pager_option
def tree(
    shared: Shared, session: str, form: str, *, ids: bool, around: str | None, **params: Any
) -> None:
    """Draw the tree of a session, the path of its main head first.

    "▶" stands before the leaf of main, and "•" before the other entries of main's path. The name of
    another head stands behind its leaf.
    """
    if form != "text":
        for flag, given in (("--ids", ids), ("--depth", params["depth"]), ("--around", around)):
            if given not in (None, False):
                raise click.UsageError(f"{flag} is for --form text only")
    shared = shared._replace(as_json=shared.as_json or form != "text")
    with connected(shared) as client:
        found = session_id(client, session)
        drawn = ask_long(
            client,
            "session/tree",
            session_id=found,
            form=form,
            ids="short" if ids and is_terminal() else ids,
            around=None if around is None else entry_id(client, found, around),
            **params,
        )
    answer(shared, drawn, lambda result: drawing(result["text"], _ID if ids else None))


COMMAND = tree
