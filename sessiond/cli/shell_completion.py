"""Completion of SESSION in a shell.

Law: a press of TAB starts no daemon, prints no error and waits at most one second.
"""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from sessiond.cli.connect.target import find_socket, require_meant_on
from sessiond.cli.options import DaemonPlace, place_of
from sessiond.cli.ui.command_terms import is_path
from sessiond.cli.ui.failure import Failure

_SECONDS = 1.0
_SHOWN = 200


def complete_session(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the ids and titles that begin with the given text, ids with their titles."""
    if is_path(incomplete):
        return [CompletionItem(incomplete, type="file")]
    from sessiond_client import SessiondClientError

    try:
        sessions = _sessions(ctx)
    except (SessiondClientError, OSError, Failure):
        return []
    offered: list[CompletionItem] = []
    for session in sessions:
        title = session["title"] or ""
        if session["id"].startswith(incomplete):
            offered.append(CompletionItem(session["id"], help=title or session["cwd"]))
        elif title.startswith(incomplete):
            offered.append(CompletionItem(title, help=session["id"]))
    return offered


def _sessions(ctx: click.Context) -> list[dict[str, Any]]:
    """Return the latest sessions of a running daemon. Raise the errors of connecting."""
    from sessiond.cli.connect.conversation import read
    from sessiond_client import connect_blocking

    socket, profile, home, config = (
        ctx.params.get(name) for name in ("socket", "profile", "home", "config")
    )
    place = place_of(ctx, DaemonPlace(socket, profile, home, config))
    path = find_socket(place)
    require_meant_on(place, path)
    with connect_blocking(path, timeout=_SECONDS, on_daemon=_say_nothing) as client:
        page = client.call_raw("session/list", limit=_SHOWN)
    sessions: list[dict[str, Any]] = read(page)["sessions"]
    return sessions


def _say_nothing(_: str, __: str) -> None:
    """Leave the user's half-typed line as it is."""
