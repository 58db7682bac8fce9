"""`sessiond rewind`: put a head back on its own path."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import expect_option, head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, read, session_id
from sessiond.cli.entry_refs import Expected, entry_or_null, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.visible import counted


@click.command(
    "rewind",
    cls=Command,
    examples=("sessiond rewind my-session entry-1", "sessiond rewind my-session null"),
)
@shared_options
@session_argument
@click.argument("entry")
@head_option
@expect_option
def rewind(shared: Shared, session: str, entry: str, expected: Expected, **params: Any) -> None:
    """Put a head back to ENTRY of its own path ("null": before the first one).

    The later entries stay in the file, on a branch that `sessiond branch` can go back to.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        moved = ask(
            client,
            "session/rewind",
            session_id=found,
            to=entry_or_null(client, found, entry),
            expected=expected_leaf(client, found, expected),
            **params,
        )
        leaf = read(moved)["leaf_id"]
        shown = short_ids(client, found, [leaf])
    answer(shared, moved, lambda result: _show(result, shown[leaf]))


def _show(result: dict[str, Any], leaf: str) -> None:
    many = counted(result["rewound_count"], "entry")
    say(f"{leaf}: {many} taken back")


COMMAND = rewind
