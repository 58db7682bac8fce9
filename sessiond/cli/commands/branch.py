"""`sessiond branch`: move a head."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import TEXT, expect_option, head_option, session_argument
from sessiond.cli.asking import NULL, answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say

__all__ = ["COMMAND"]


@click.command(
    "branch",
    cls=Command,
    examples=(
        "sessiond branch my-session entry-1",
        'sessiond branch my-session entry-1 --summary "tried the other way"',
        "sessiond branch my-session entry-1 --head reviewer",
        "sessiond branch my-session --head reviewer --drop",
    ),
)
@shared_options
@session_argument
@click.argument("entry", required=False)
@head_option
@click.option("--summary", type=TEXT, help='What is left behind, kept for the model; "-": stdin.')
@click.option("--drop", is_flag=True, default=None, help="Forget the --head instead.")
@expect_option
def branch(
    shared: Shared, session: str, entry: str | None, *, drop: bool | None, **params: Any
) -> None:
    """Move a head to ENTRY ("null": before the first one) and print where its leaf is now.

    What is appended next goes below it. A head that is not there is made.
    """
    if (entry is None) is not bool(drop):
        raise click.UsageError("give the ENTRY to move to, or --drop")
    with connected(shared) as client:
        moved = ask(
            client,
            "session/branch",
            session_id=session_id(client, session),
            entry_id=NULL if entry == "null" else entry,
            drop=drop,
            **params,
        )
    answer(shared, moved, lambda result: say(result["leaf_id"] or "null"))


COMMAND = branch
