"""`sessiond restore`: bring deleted sessions back."""

from __future__ import annotations

import click

from sessiond.cli.bulk import apply, require_ids, whole_id
from sessiond.cli.options import Command, Shared, shared_options


@click.command("restore", cls=Command, examples=("sessiond restore my-session-id",))
@shared_options
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
def restore(shared: Shared, ids: tuple[str, ...]) -> None:
    """Bring deleted sessions back to their former place, and print their ids.

    Takes whole ids: `sessiond trash` shows them. A session from outside the profile goes back to
    its folder. No file is replaced.
    """
    require_ids(ids)
    apply(shared, "session/restore", ids, whole_id)


COMMAND = restore
