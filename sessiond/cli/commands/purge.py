"""`sessiond purge`: remove sessions from the trash for good."""

from __future__ import annotations

import click

from sessiond.cli.bulk import apply, require_ids, whole_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.confirm import is_confirmed
from sessiond.cli.ui.failure import Failure


@click.command("purge", cls=Command, examples=("sessiond purge --yes my-session-id",))
@shared_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def purge(shared: Shared, ids: tuple[str, ...], *, yes: bool) -> None:
    """Remove deleted sessions from the trash; they cannot be brought back.

    Takes whole ids only: a session in the trash has no other name.
    """
    require_ids(ids)
    if not yes:
        _confirm(ids)
    from sessiond_client import RpcError

    try:
        apply(shared, "session/purge", ids, whole_id)
    except RpcError as error:
        if error.kind != "session_exists":
            raise
        named = error.data["session_id"]
        then = f"delete it first: `sessiond delete {named}`"
        raise Failure(f"{named} is not in the trash", then, facts=error.data) from error


def _confirm(ids: tuple[str, ...]) -> None:
    """Ask for a confirmation. Raise Failure unless the answer is yes."""
    if not is_confirmed(f"Purge {', '.join(ids)} for good?"):
        raise Failure("no session was purged", "run it with --yes to purge without a question")


COMMAND = purge
