"""`sessiond purge`: take sessions out of the trash for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.putting import apply

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["COMMAND"]


@click.command("purge", cls=Command, examples=("sessiond purge --yes my-session-id",))
@shared_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def purge(shared: Shared, ids: tuple[str, ...], *, yes: bool) -> None:
    """Take deleted sessions out of the trash; they cannot be brought back.

    Takes whole ids only: what is in the trash has no other name.
    """
    if not yes:
        click.confirm(f"Purge {len(ids)} session(s) for good?", abort=True, err=True)
    apply(shared, "session/purge", ids, _as_it_is)


def _as_it_is(_: BlockingClient, session_id: str) -> str:
    return session_id


COMMAND = purge
