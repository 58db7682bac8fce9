"""`sessiond rewind`: take back what was tried last."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import expect_option, head_option, session_argument
from sessiond.cli.asking import NULL, answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say
from sessiond.cli.text import counted

__all__ = ["COMMAND"]


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
def rewind(shared: Shared, session: str, entry: str, **params: Any) -> None:
    """Put a head back to ENTRY of its own path ("null": before the first one).

    What followed stays in the file, on a branch of its own that `sessiond branch` can go back to.
    """
    with connected(shared) as client:
        moved = ask(
            client,
            "session/rewind",
            session_id=session_id(client, session),
            to=NULL if entry == "null" else entry,
            **params,
        )
    answer(shared, moved, _show)


def _show(result: dict[str, Any]) -> None:
    many = counted(result["rewound_count"], "entry")
    say(f"{result['leaf_id'] or 'null'}: {many} taken back")


COMMAND = rewind
