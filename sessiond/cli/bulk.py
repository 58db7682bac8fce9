"""Commands that do one operation on each of several sessions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessiond.cli.arguments import SESSION
from sessiond.cli.connect.conversation import ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import emit, say

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["apply", "for_each", "whole_id"]


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
        apply(shared, f"session/{name}", sessions, session_id)

    return run


def whole_id(_: BlockingClient, session_id: str) -> str:
    """Return the id unchanged: a session in the trash is named by its whole id only."""
    return session_id


def apply(shared: Shared, method: str, refs: Sequence[str], id_of: Callable[..., str]) -> None:
    """Call the method for each session, and print the ids of the finished ones."""
    results: dict[str, dict[str, Any]] = {}
    with connected(shared) as client:
        for ref in refs:
            found = id_of(client, ref)
            results[found] = msgspec.json.decode(ask(client, method, session_id=found))
            if not shared.as_json:
                say(found)
    if shared.as_json:
        emit({"sessions": [{"session_id": found, **result} for found, result in results.items()]})
