"""`sessiond stats`: print the figures of a session, or the daemon's counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec
from msgspec import Raw

from sessiond.cli.arguments import SESSION
from sessiond.cli.connect.conversation import answer, ask, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import table
from sessiond.cli.ui.render import facts, usage_facts, when
from sessiond.cli.ui.text import counted

__all__ = ["COMMAND"]

_COLUMNS = ("SESSION", "SEQ", "WAITING", "BATCHES", "ENTRIES", "SUBSCRIBERS", "REPLAYING", "EVENTS")


@click.command(
    "stats",
    cls=Command,
    examples=("sessiond stats my-session", "sessiond stats", "sessiond stats --json"),
)
@shared_options
@click.argument("session", type=SESSION, required=False)
def stats(shared: Shared, session: str | None) -> None:
    """Print the figures of SESSION: its messages, entries, tokens and cost.

    Without SESSION: the counters of the daemon, then those of each open session. With --json and
    SESSION: {"session": SessionInfo, "usage": the result of session/usage}.
    """
    with connected(shared) as client:
        if session is None:
            answer(shared, ask(client, "server/stats"), _show)
            return
        found = session_id(client, session)
        known = msgspec.json.decode(
            ask(client, "session/get", session_id=found), type=dict[str, Raw]
        )
        used = ask_long(client, "session/usage", session_id=found)
    both = msgspec.json.encode({"session": known["session"], "usage": Raw(used)})
    answer(shared, both, lambda result: facts(_facts(result["session"], result["usage"])))


def _facts(session: dict[str, Any], used: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield "id", session["id"]
    yield "title", session["title"]
    heads = counted(len(session["heads"]), "head")
    yield (
        "messages",
        f"{session['message_count']} on main's path, {session['message_total']} in all",
    )
    yield "entries", f"{session['entry_count']}, {heads}"
    yield "created", when(session["created_at"])
    yield "updated", when(session["updated_at"])
    yield "model", session["model"]
    share = used["tokens"] / used["window"]
    yield "context", f"about {counted(used['tokens'], 'token')}, {share:.0%} of {used['window']}"
    yield from usage_facts(used["totals"])


def _show(result: dict[str, Any]) -> None:
    sessions: dict[str, Any] = result.pop("sessions")
    facts(result.items())
    table(_COLUMNS, [(found, *_row(counters)) for found, counters in sessions.items()])


def _row(counters: dict[str, Any]) -> tuple[str, ...]:
    writer, hub = counters["writer"], counters["hub"]
    numbers = (
        counters["seq"],
        counters["inbox"],
        writer["batches"],
        writer["entries"],
        hub["subscribers"],
        hub["replaying"],
        hub["events"],
    )
    return tuple(map(str, numbers))


COMMAND = stats
