"""`sessiond delete`: put sessions into the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessiond.cli.arguments import SESSION
from sessiond.cli.asking import ask, is_path, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.putting import apply

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["COMMAND"]


@click.command("delete", cls=Command, examples=("sessiond delete my-session",))
@shared_options
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def delete(shared: Shared, sessions: tuple[str, ...]) -> None:
    """Put sessions into the trash.

    With the id that is printed `sessiond restore` brings one back, and `sessiond purge` takes one
    out of the trash for good. An id that is in the trash already is as good as done.
    """
    apply(shared, "session/delete", sessions, _found_or_gone)


def _found_or_gone(client: BlockingClient, ref: str) -> str:
    """The id of a session, or of one in the trash, which has no other name."""
    from sessiond_client import RpcError

    try:
        return session_id(client, ref)
    except RpcError as error:
        if error.kind != "session_not_found" or is_path(ref):
            raise
        try:
            ask(client, "session/delete", session_id=ref)
        except RpcError:
            # What nobody has, or what can be no id: the first answer says which are there.
            raise error from None
    click.echo(f"{ref} is in the trash already", err=True)
    return ref


COMMAND = delete
