"""`sessiond compact`: replace earlier entries by a summary."""

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
from sessiond.cli.connect.conversation import answer, ask_long, connected, read, session_id
from sessiond.cli.entry_refs import Expected, entry_id, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.visible import counted


@click.command(
    "compact",
    cls=Command,
    examples=('sessiond compact my-session --summary "It was the cron job." --keep-from entry-2',),
)
@shared_options
@session_argument
@click.option("--summary", type=TEXT, help='Summary of the earlier entries; "-": stdin, @FILE.')
@click.option("--keep-from", "first_kept_entry_id", metavar="ENTRY", help="First entry to keep.")
@click.option(
    "--plan",
    "plan_id",
    metavar="ID",
    help="Plan that the summary was made from; it names the first entry to keep. "
    "See `sessiond plan`.",
)
@click.option(
    "--messages",
    type=JSON_LIST,
    help='Whole new context as a list of messages, instead of a summary ("-": stdin). '
    "Needs --expect-leaf or --plan.",
)
@click.option(
    "--instructions",
    type=TEXT,
    help="Focus of the summary that the daemon has written, if you give none.",
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
    """Give the model a summary in place of earlier entries; the file keeps all entries.

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
        stored = read(done)["entry"]["id"]
        shown = short_ids(client, found, [stored])
    answer(shared, done, lambda result: _show(result, shown[stored]))


def _show(result: dict[str, Any], stored: str) -> None:
    before, after = (_tokens(result[name]) for name in ("tokens_before", "tokens_after"))
    say(f"{stored}: {before} before, {after} after")


def _tokens(count: int | None) -> str:
    return "unknown tokens" if count is None else counted(count, "token")


COMMAND = compact
