"""`sessiond compact`: replace what precedes by a summary."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sessiond.cli.arguments import (
    JSON_LIST,
    TEXT,
    expect_option,
    head_option,
    key_option,
    session_argument,
)
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.entry_refs import Expected, entry_id, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.cli.ui.text import counted

__all__ = ["COMMAND"]


@click.command(
    "compact",
    cls=Command,
    examples=('sessiond compact my-session --summary "It was the cron job." --keep-from entry-2',),
)
@shared_options
@session_argument
@click.option("--summary", type=TEXT, help='What everything before came to; "-": stdin, @FILE.')
@click.option("--keep-from", "first_kept_entry_id", metavar="ENTRY", help="Keep from here on.")
@click.option(
    "--plan",
    "plan_id",
    metavar="ID",
    help="The plan that the summary was made of: it says what is kept. See `sessiond plan`.",
)
@click.option(
    "--messages",
    type=JSON_LIST,
    help='Instead of a summary: the whole context as a list of messages ("-": stdin). '
    "Needs --expect-leaf or --plan.",
)
@click.option(
    "--instructions",
    type=TEXT,
    metavar="TEXT",
    help="Without a summary: what the one that is written shall mind above all.",
)
@head_option
@expect_option
@key_option
def compact(
    shared: Shared,
    session: str,
    first_kept_entry_id: str | None,
    expected: Expected,
    **params: Any,
) -> None:
    """Give the model a summary in place of what precedes; nothing is taken out of the file.

    Without --summary and --messages the daemon has a summary written, by a client that offers it
    or by the configured `summarizer.command`.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        first = first_kept_entry_id
        done = ask_long(
            client,
            "session/compact",
            session_id=found,
            first_kept_entry_id=None if first is None else entry_id(client, found, first),
            expected=expected_leaf(client, found, expected),
            **params,
        )
        stored = msgspec.json.decode(done)["entry"]["id"]
        shown = short_ids(client, found, [stored])
    answer(shared, done, lambda result: _show(result, shown[stored]))


def _show(result: dict[str, Any], stored: str) -> None:
    before, after = (_tokens(result[name]) for name in ("tokens_before", "tokens_after"))
    say(f"{stored}: {before} before, {after} after")


def _tokens(count: int | None) -> str:
    return "unknown tokens" if count is None else counted(count, "token")


COMMAND = compact
