"""`sessiond retention`: move old sessions to the trash."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.connect.conversation import answer, ask_long, connected, read
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.cli.ui.session_list import session_table
from sessiond.daemon.exit_status import Status
from sessiond.visible import counted


@click.command(
    "retention",
    cls=Command,
    examples=("sessiond retention --hours 720", "sessiond retention --hours 720 --apply"),
)
@shared_options
@click.option(
    "--hours",
    type=click.FloatRange(0, min_open=True),
    required=True,
    help="Hours since the last change.",
)
@click.option(
    "--apply", is_flag=True, help="Move them; without this flag only print what would go."
)
@click.pass_context
def retention(ctx: click.Context, /, shared: Shared, *, hours: float, apply: bool) -> None:
    """Move the sessions that have not changed for so many hours to the trash.

    The time of a session's file counts, not the times that its entries name. Archived sessions,
    drafts, and sessions that a client uses stay. Exit status 1 if a session could not be moved. A
    daemon with `retention.max_age_hours` or `retention.preset` in its configuration runs this by
    itself.
    """
    with connected(shared) as client:
        done = ask_long(client, "retention/run", max_age_hours=hours, dry_run=not apply)
    answer(shared, done, _show)
    if read(done)["failed"]:
        ctx.exit(Status.FAILED)


def _show(result: dict[str, Any]) -> None:
    if result["sessions"]:
        session_table(result["sessions"])
    for one in result["failed"]:
        say(f"stays: {one['session_id']}: {one['message']}")
    many = counted(len(result["sessions"]), "session")
    then = "would go to the trash: do it with --apply" if result["dry_run"] else "went to the trash"
    say(f"{many} {then}")


COMMAND = retention
