"""`sessiond delete`: put sessions into the trash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sessiond.cli.arguments import SESSION
from sessiond.cli.bulk import apply
from sessiond.cli.connect.conversation import ask, find, is_path
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.confirm import is_confirmed
from sessiond.cli.ui.failures import Failure

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["COMMAND"]


@click.command("delete", cls=Command, examples=("sessiond delete my-session",))
@shared_options
@click.option("--yes", is_flag=True, help="Do not ask before a file outside the profile goes.")
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def delete(shared: Shared, sessions: tuple[str, ...], *, yes: bool) -> None:
    """Put sessions into the trash.

    With the id that is printed `sessiond restore` brings one back, and `sessiond purge` takes one
    out of the trash for good. An id that is in the trash already is as good as done. A file
    outside the profile is yours, so you are asked first; `sessiond forget` only unlists it.
    """

    def found(client: BlockingClient, ref: str) -> str:
        return _found_or_gone(client, ref, yes=yes)

    apply(shared, "session/delete", sessions, found)


def _found_or_gone(client: BlockingClient, ref: str, *, yes: bool) -> str:
    """The id of a session, or of one in the trash, which has no other name."""
    from sessiond_client import RpcError

    try:
        session = find(client, ref)
    except RpcError as error:
        if error.kind != "session_not_found" or is_path(ref):
            raise
        try:
            ask(client, "session/delete", session_id=ref)
        except RpcError:
            # What nobody has, or what can be no id: the first answer says which are there.
            raise error from None
    else:
        if session["path"] is not None and not yes:
            _confirm(client, Path(session["path"]))
        found: str = session["id"]
        return found
    click.echo(f"{ref} is in the trash already", err=True)
    return ref


def _confirm(client: BlockingClient, path: Path) -> None:
    """Ask whether a file outside the profile is to go. Raises Failure unless the answer is yes."""
    profile = Path(msgspec.json.decode(ask(client, "server/info"))["data_folder"])
    if profile in path.parents:
        return
    if not is_confirmed(f"{path} lies outside the profile. Put it into the trash?"):
        then = "run it with --yes if you mean it, or `sessiond forget` to keep the file"
        raise Failure(f"{path} was not deleted", then)


COMMAND = delete
