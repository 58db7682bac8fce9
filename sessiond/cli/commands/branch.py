"""`sessiond branch`: move a head."""

from __future__ import annotations

from typing import Any, Final

import click

from sessiond.cli.arguments import TEXT, expect_option, head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, read, session_id
from sessiond.cli.entry_refs import Expected, entry_or_null, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say

_MAIN: Final = "main"


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
@click.option(
    "--summary",
    type=TEXT,
    help='Summary of the abandoned branch, for the model; "-": stdin, @FILE.',
)
@click.option("--drop", is_flag=True, default=None, help="Drop the --head instead of moving it.")
@expect_option
def branch(
    shared: Shared,
    session: str,
    entry: str | None,
    *,
    drop: bool | None,
    expected: Expected,
    **params: Any,
) -> None:
    """Move a head to ENTRY ("null": before the first one) and print its new leaf.

    The next entry goes below the leaf. A head that does not exist is created. To change a message
    and send it again see `sessiond navigate`; `sessiond fork --at ENTRY` makes a session of its own.
    """
    if (entry is None) is not bool(drop):
        raise click.UsageError("give the ENTRY to move to, or --drop")
    if drop and params["head"] in {None, _MAIN}:
        raise click.UsageError("name the head with --head: main cannot be dropped")
    with connected(shared) as client:
        found = session_id(client, session)
        moved = ask(
            client,
            "session/branch",
            session_id=found,
            entry_id=entry_or_null(client, found, entry),
            drop=drop,
            expected=expected_leaf(client, found, expected),
            **params,
        )
        leaf = read(moved).get("leaf_id")
        shown = short_ids(client, found, [leaf])
    answer(shared, moved, lambda _: say(shown[leaf]))


COMMAND = branch
