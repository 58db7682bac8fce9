"""`sessiond stats`: how busy the daemon is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from sessiond.cli.asking import answer, ask, connected
from sessiond.cli.looks import facts
from sessiond.cli.options import Command, Shared, shared_options

__all__ = ["COMMAND"]


@click.command("stats", cls=Command, examples=("sessiond stats",))
@shared_options
def stats(shared: Shared) -> None:
    """Print the counters of the daemon."""
    with connected(shared) as client:
        counters = ask(client, "server/stats")
    answer(shared, counters, lambda result: facts(_flat("", result)))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every counter under its dotted name."""
    if isinstance(value, dict):
        for name, inner in msgspec.convert(value, dict[str, Any]).items():
            yield from _flat(f"{prefix}.{name}".lstrip("."), inner)
    elif isinstance(value, list):
        yield prefix, len(msgspec.convert(value, list[Any]))
    else:
        yield prefix, value


COMMAND = stats
