"""`sessiond delete`: move sessions to the trash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sessiond.cli.arguments import SESSION
from sessiond.cli.bulk import apply
from sessiond.cli.connect.conversation import UNREAD, ask, find_whole, read
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.command_terms import is_path
from sessiond.cli.ui.confirm import is_confirmed
from sessiond.cli.ui.failure import Failure

if TYPE_CHECKING:
    from sessiond_client import BlockingClient


@click.command("delete", cls=Command, examples=("sessiond delete my-session",))
@shared_options
@click.option("--yes", is_flag=True, help="Do not ask before deleting a file outside the profile.")
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def delete(shared: Shared, sessions: tuple[str, ...], *, yes: bool) -> None:
    """Move sessions to the trash.

    `sessiond restore` brings a session back by the printed id, and `sessiond purge` removes it for
    good. An id that is already in the trash counts as deleted. A session that cannot be read is
    named by its whole id. A file outside the profile is yours, so you are asked first; `sessiond
    forget` only unlists it. A part of a title names no session here.
    """

    def found(client: BlockingClient, ref: str) -> str:
        return _found_or_gone(client, ref, yes=yes)

    apply(shared, "session/delete", sessions, found)


def _found_or_gone(client: BlockingClient, ref: str, *, yes: bool) -> str:
    """Return the id of a session; a session that no list has is named by its whole id only.

    Raise RpcError, Failure.
    """
    from sessiond_client import RpcError

    try:
        session = find_whole(client, ref)
    except RpcError as error:
        if error.kind not in UNREAD or is_path(ref):
            raise
        path = Path(error.data.get("path", ""))
        if path.is_absolute() and not yes:
            _confirm(client, path)
        try:
            ask(client, "session/delete", session_id=ref)
        except RpcError:
            # No session has the id, or it cannot be an id: the first error has the better advice.
            raise error from None
    else:
        if session["path"] is not None and not yes:
            _confirm(client, Path(session["path"]))
        found: str = session["id"]
        return found
    # Lists have neither what was in the trash before nor what cannot be read.
    click.echo(f"no list has {ref}, which is in the trash", err=True)
    return ref


def _confirm(client: BlockingClient, path: Path) -> None:
    """Ask whether a file outside the profile is to be deleted. Raise Failure unless the answer is yes."""
    profile = Path(read(ask(client, "server/info"))["data_folder"])
    if profile in path.parents:
        return
    if not is_confirmed(f"{path} lies outside the profile. Move it to the trash?"):
        then = "run it with --yes to delete it, or `sessiond forget` to keep the file"
        raise Failure(f"{path} was not deleted", then)


COMMAND = delete
