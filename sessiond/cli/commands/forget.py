"""`sessiond forget`: unlist files outside the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessiond.cli.arguments import SESSION
from sessiond.cli.bulk import apply
from sessiond.cli.connect.conversation import UNREAD, whole_session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.command_terms import is_path

if TYPE_CHECKING:
    from sessiond_client import BlockingClient


@click.command("forget", cls=Command, examples=("sessiond forget ./session.jsonl",))
@shared_options
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def forget(shared: Shared, sessions: tuple[str, ...]) -> None:
    """Take sessions whose files lie outside the profile out of the list.

    The files are not touched. A session whose file is gone, or cannot be read, is named by its whole
    id. A part of a title names no session here.
    """
    apply(shared, "session/forget", sessions, _known)


def _known(client: BlockingClient, ref: str) -> str:
    """Return the id of a session; a session that cannot be read is named by its whole id only."""
    from sessiond_client import RpcError

    try:
        return whole_session_id(client, ref)
    except RpcError as error:
        if error.kind not in UNREAD or is_path(ref):
            raise
    return ref


COMMAND = forget
