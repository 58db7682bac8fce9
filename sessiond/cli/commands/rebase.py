"""`sessiond rebase`: make a session of chosen entries."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from sessiond.cli.arguments import TEXT, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, find
from sessiond.cli.entry_refs import entry_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.render import copy_made, copy_planned

# A digit count that no session reaches keeps a slip of the keyboard from filling the memory.
_PART: Final = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")


class _Messages(click.ParamType[list[tuple[int, int]]]):
    """Messages by their index, single or as ranges: 0,2-5."""

    name = "messages"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[int, int]]:
        found = [_PART.fullmatch(part.strip()) for part in str(value).split(",")]
        ranges = [(int(one[1]), int(one[2] or one[1])) for one in found if one is not None]
        if len(ranges) < len(found) or any(first > last for first, last in ranges):
            self.fail("give the places of messages as 0,2-5; 0 is the first message", param, ctx)
        return ranges


@click.command(
    "rebase",
    cls=Command,
    examples=(
        "sessiond rebase my-session entry-2 entry-1",
        "sessiond rebase my-session --messages 0-1 --squash --dry-run",
        'sessiond rebase my-session --messages 0,1 --summary "It was the cron job."',
    ),
)
@shared_options
@session_argument
@click.argument("entries", nargs=-1, metavar="[ENTRY]...")
@click.option(
    "--messages",
    type=_Messages(),
    metavar="0,2-5",
    help="Messages of main's path by their index, instead of ENTRY...; 0 is the first message.",
)
@click.option(
    "--squash",
    is_flag=True,
    help="Have a summary of the entries written, which the model sees in place of them.",
)
@click.option(
    "--summary",
    type=TEXT,
    help='Summary of your own for --squash; "-": stdin, @FILE.',
)
@click.option("--detached", is_flag=True, help="Do not record SESSION as the parent.")
@click.option(
    "--dry-run", is_flag=True, default=None, help="Make nothing, print what the session would be."
)
def rebase(  # noqa: PLR0913 - what click passes
    shared: Shared,
    session: str,
    entries: tuple[str, ...],
    messages: list[tuple[int, int]] | None,
    *,
    squash: bool,
    summary: str | None,
    detached: bool,
    dry_run: bool | None,
) -> None:
    """Make a session of the entries ENTRY... of SESSION, in this order, and print its id.

    The entries may come from any branch. Each stands below the one before it, with its id and its
    label. SESSION stays unchanged. `sessiond show SESSION` and `sessiond tree SESSION` show ids.

    With --squash the model sees a summary in place of the entries; the file has all of them. A client
    that offers it writes the summary, or the configured `summarizer.command`, or you: --summary.
    """
    if bool(entries) is (messages is not None):
        raise click.UsageError("give the entries: ENTRY..., or --messages")
    with connected(shared) as client:
        known = find(client, session)
        made = ask_long(
            client,
            "session/rebase",
            session_id=known["id"],
            entry_ids=entry_ids(client, known["id"], entries) if entries else None,
            indices=None if messages is None else _indices(messages, known["message_count"]),
            squash={"summary": summary} if squash or summary is not None else None,
            link="none" if detached else None,
            dry_run=dry_run,
        )
    answer(shared, made, copy_planned if dry_run else copy_made)


def _indices(ranges: list[tuple[int, int]], count: int) -> list[int]:
    """Return the indices of the ranges; of those behind the last message the first at most.

    The daemon refuses an index behind the last message and says which ones there are.
    """
    return [
        index
        for first, last in ranges
        for index in (first, *range(first + 1, min(last, count) + 1))
    ]


COMMAND = rebase
