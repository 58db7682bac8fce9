"""`sessiond purge`: remove sessions from the trash for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessiond.cli.bulk import apply
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.confirm import is_confirmed
from sessiond.cli.ui.failure import Failure
from sessiond.daemon.exit_status import Status
from sessiond.model.ids import is_session_id

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["COMMAND"]


@click.command("purge", cls=Command, examples=("sessiond purge --yes my-session-id",))
@shared_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def purge(shared: Shared, ids: tuple[str, ...], *, yes: bool) -> None:
    """Remove deleted sessions from the trash; they cannot be brought back.

    Takes whole ids only: a session in the trash has no other name.
    """
    for one in ids:
        if not is_session_id(one):
            what = f"{one!r} is not the id of a session"
            raise Failure(what, "see `sessiond trash` for the ids", Status.USAGE)
    if not yes:
        _confirm(ids)
    from sessiond_client import RpcError

    try:
        apply(shared, "session/purge", ids, _as_it_is)
    except RpcError as error:
        if error.kind != "session_exists":
            raise
        what = f"{error.data['session_id']} is not in the trash"
        raise Failure(what, "delete it first: `sessiond delete ID`", facts=error.data) from error


def _confirm(ids: tuple[str, ...]) -> None:
    """Ask for a confirmation. Raise Failure unless the answer is yes."""
    if not is_confirmed(f"Purge {', '.join(ids)} for good?"):
        raise Failure("no session was purged", "run it with --yes to purge without a question")


def _as_it_is(_: BlockingClient, session_id: str) -> str:
    return session_id


COMMAND = purge
