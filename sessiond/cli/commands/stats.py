"""`sessiond stats`: print the daemon's counters."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.connect.conversation import answer, ask, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import table
from sessiond.cli.ui.render import facts

__all__ = ["COMMAND"]

_COLUMNS = ("SESSION", "SEQ", "WAITING", "BATCHES", "ENTRIES", "SUBSCRIBERS", "REPLAYING", "EVENTS")


@click.command("stats", cls=Command, examples=("sessiond stats", "sessiond stats --json"))
@shared_options
def stats(shared: Shared) -> None:
    """Print the counters of the daemon, then those of each open session."""
    with connected(shared) as client:
        counters = ask(client, "server/stats")
    answer(shared, counters, _show)


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
