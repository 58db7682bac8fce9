"""`sessiond search`: where something was said."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import FOLDER, absolute
from sessiond.cli.asking import answer, ask_long, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import table

__all__ = ["COMMAND"]


@click.command(
    "search", cls=Command, examples=('sessiond search "cron job"', "sessiond search --here late")
)
@shared_options
@click.argument("query")
@click.option("--cwd", type=FOLDER, help="Only in this project.")
@click.option("--here", is_flag=True, help="Only in the project of this folder.")
@click.option("--limit", "-n", type=click.IntRange(1), default=50, show_default=True)
def search(shared: Shared, query: str, cwd: str | None, limit: int, *, here: bool) -> None:
    """Find the entries that hold QUERY, in every session."""
    if here:
        cwd = absolute(".")
    with connected(shared) as client:
        found = ask_long(client, "session/search", query=query, cwd=cwd, limit=limit)
    answer(shared, found, _show)


def _show(result: dict[str, Any]) -> None:
    table(
        ("SESSION", "ENTRY", "TEXT"),
        [(hit["session_id"], hit["entry_id"], hit["snippet"]) for hit in result["hits"]],
    )


COMMAND = search
