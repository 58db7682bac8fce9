"""`sessiond tree`: the entries of a session as a tree."""

from __future__ import annotations

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.asking import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say

__all__ = ["COMMAND"]


@click.command(
    "tree",
    cls=Command,
    examples=(
        "sessiond tree my-session",
        "sessiond tree my-session --ids",
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
    help="flat and nested are JSON.",
)
@click.option("--ids", is_flag=True, help="Also the id of each entry, as branch and label take it.")
def tree(shared: Shared, session: str, form: str, *, ids: bool) -> None:
    """Draw the tree of a session, the path of its main head first."""
    if ids and form != "text":
        raise click.UsageError("--ids is for the text form; the others have them")
    shared = shared._replace(as_json=shared.as_json or form != "text")
    with connected(shared) as client:
        params = {"form": form, "ids": ids}
        drawn = ask_long(client, "session/tree", session_id=session_id(client, session), **params)
    answer(shared, drawn, lambda result: say(result["text"].removesuffix("\n")))


COMMAND = tree
