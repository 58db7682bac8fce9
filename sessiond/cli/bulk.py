"""Commands that do one operation on each of several sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from sessiond.cli.arguments import SESSION
from sessiond.cli.connect.conversation import ask, connected, read, whole_session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.output import emit, say
from sessiond.daemon.exit_status import Status
from sessiond.model.ids import is_session_id

if TYPE_CHECKING:
    from sessiond_client import BlockingClient


def for_each(
    name: str,
    help: str,
    *,
    examples: Sequence[str],
) -> click.Command:
    """Return the command that calls `session/<name>` for each SESSION; the first refusal ends it."""

    @click.command(name, cls=Command, help=help, examples=examples)
    @shared_options
    @click.argument("sessions", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
    def run(shared: Shared, sessions: tuple[str, ...]) -> None:
        apply(shared, f"session/{name}", sessions, whole_session_id)

    return run


def require_ids(ids: Sequence[str]) -> None:
    """Require whole ids of sessions, as of sessions in the trash. Raise Failure."""
    for one in ids:
        if not is_session_id(one):
            what = f"{one!r} is not the id of a session"
            raise Failure(what, "see `sessiond trash` for the ids", Status.USAGE)


def whole_id(_: BlockingClient, session_id: str) -> str:
    """Return the id unchanged: a session in the trash is named by its whole id only."""
    return session_id


def apply(shared: Shared, method: str, refs: Sequence[str], id_of: Callable[..., str]) -> None:
    """Call the method for each session, and print the ids of the finished ones."""
    results: dict[str, dict[str, Any]] = {}
    with connected(shared) as client:
        for ref in refs:
            found = id_of(client, ref)
            results[found] = read(ask(client, method, session_id=found))
            if not shared.as_json:
                say(found)
    if shared.as_json:
        emit({"sessions": [{"session_id": found, **result} for found, result in results.items()]})
