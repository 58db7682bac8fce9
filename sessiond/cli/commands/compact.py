"""`sessiond compact`: replace what precedes by a summary."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import (
    JSON_LIST,
    TEXT,
    expect_option,
    head_option,
    key_option,
    session_argument,
)
from sessiond.cli.asking import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say

__all__ = ["COMMAND"]


@click.command(
    "compact",
    cls=Command,
    examples=('sessiond compact my-session --summary "It was the cron job." --keep-from entry-2',),
)
@shared_options
@session_argument
@click.option("--summary", type=TEXT, help='What everything before came to; "-": stdin.')
@click.option("--keep-from", "first_kept_entry_id", metavar="ENTRY", help="Keep from here on.")
@click.option(
    "--messages",
    type=JSON_LIST,
    help='Instead of a summary: the whole context as a list of messages ("-": stdin). '
    "Needs --expect-leaf.",
)
@head_option
@expect_option
@key_option
def compact(shared: Shared, session: str, **params: Any) -> None:
    """Give the model a summary in place of what precedes; nothing is taken out of the file."""
    with connected(shared) as client:
        done = ask(client, "session/compact", session_id=session_id(client, session), **params)
    answer(
        shared,
        done,
        lambda result: say(
            f"{result['entry']['id']}: "
            f"{result['tokens_before']} tokens before, {result['tokens_after']} after"
        ),
    )


COMMAND = compact
