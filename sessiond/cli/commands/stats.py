"""`sessiond stats`: print the figures of a session, or the daemon's counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import click
import msgspec
from msgspec import Raw

from sessiond import typed
from sessiond.cli.arguments import SESSION
from sessiond.cli.connect.conversation import answer, ask, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import table
from sessiond.cli.ui.render import facts, usage_facts, when
from sessiond.visible import counted

_COLUMNS = ("SESSION", "SEQ", "WAITING", "BATCHES", "ENTRIES", "SUBSCRIBERS", "REPLAYING", "EVENTS")

_NAMES_SHOWN: Final = 10


@click.command(
    "stats",
    cls=Command,
    examples=("sessiond stats my-session", "sessiond stats", "sessiond stats --json"),
)
@shared_options
@click.argument("session", type=SESSION, required=False)
def stats(shared: Shared, session: str | None) -> None:
    """Print the figures of SESSION: its messages, entries, tokens and cost.

    Without SESSION: the counters of the daemon, then those of each open session. A pipe gets lines
    with tabs and without headings: of a counter its name and value; of an open session its id, last
    seq, waiting appends, batches, entries, subscribers, replays that go on, and events. With --json and
    SESSION: {"session": SessionInfo, "usage": the result of session/usage, "stats": the result of
    session/stats}.
    """
    with connected(shared) as client:
        if session is None:
            answer(shared, ask(client, "server/stats"), _show)
            return
        found = session_id(client, session)
        known = typed.decode(ask(client, "session/get", session_id=found), dict[str, Raw])
        used = ask_long(client, "session/usage", session_id=found)
        counted_up = ask_long(client, "session/stats", session_id=found)
    answers = {"session": known["session"], "usage": Raw(used), "stats": Raw(counted_up)}
    answer(shared, msgspec.json.encode(answers), lambda result: facts(_facts(**result)))


def _facts(
    session: dict[str, Any], usage: dict[str, Any], stats: dict[str, Any]
) -> Iterator[tuple[str, str | None]]:
    yield "id", session["id"]
    yield "title", session["title"]
    heads = counted(len(session["heads"]), "head")
    yield (
        "messages",
        f"{session['message_count']} on main's path, {session['message_total']} in all",
    )
    whole = stats["whole"]
    yield "by role", _named(whole["messages"], leave_out="total")
    yield "entries", f"{session['entry_count']}, {heads}, {_leaves(stats['branches'])}"
    yield "created", when(session["created_at"])
    yield "updated", when(session["updated_at"])
    yield "model", session["model"]
    share = usage["tokens"] / usage["window"]
    yield "context", f"about {counted(usage['tokens'], 'token')}, {share:.0%} of {usage['window']}"
    yield from usage_facts(usage["totals"])
    yield "queue", _named(stats["queue"], leave_out="total") or None
    yield "tool calls", _tools(whole)
    for name, files in (("read", whole["files"]["read"]), ("modified", whole["files"]["modified"])):
        more = f" and {len(files) - _NAMES_SHOWN} more" if len(files) > _NAMES_SHOWN else ""
        yield name, ", ".join(files[:_NAMES_SHOWN]) + more
    yield "compactions", _compactions(whole["compactions"])


def _named(numbers: dict[str, int], *, leave_out: str) -> str:
    """Return the numbers that are not 0, each with its name."""
    shown = [(name, count) for name, count in numbers.items() if name != leave_out]
    return ", ".join(f"{count} {name}" for name, count in shown if count)


def _leaves(count: int) -> str:
    return "1 leaf" if count == 1 else f"{count} leaves"


def _tools(whole: dict[str, Any]) -> str | None:
    if not whole["tool_calls"]:
        return None
    names = ", ".join(f"{tool['name']} {tool['calls']}" for tool in whole["tools"][:_NAMES_SHOWN])
    errors = f"; {counted(whole['tool_errors'], 'error')}" if whole["tool_errors"] else ""
    return f"{whole['tool_calls']}: {names}{errors}"


def _compactions(found: dict[str, Any]) -> str | None:
    if not found["count"]:
        return None
    freed = found["tokens_freed"]
    return f"{found['count']}" + (f", {counted(freed, 'token')} freed" if freed else "")


def _show(result: dict[str, Any]) -> None:
    sessions: dict[str, Any] = result.pop("sessions")
    facts(_flat(result))
    table(_COLUMNS, [(found, *_row(counters)) for found, counters in sessions.items()])


def _flat(counters: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield counters with their names; one of a group has the group's name before its own."""
    for name, value in counters.items():
        group = cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
        yield from [(above + name, value)] if group is None else _flat(group, f"{above}{name}.")


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
