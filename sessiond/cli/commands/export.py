"""`sessiond export`: a session as a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.asking import answer, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options

__all__ = ["COMMAND"]


@click.command(
    "export",
    cls=Command,
    examples=(
        "sessiond export my-session copy.jsonl",
        "sessiond export my-session - >copy-2.jsonl",
    ),
)
@shared_options
@session_argument
@click.argument("file", type=click.Path(allow_dash=True), default="-")
@click.option("--format", type=click.Choice(["native"]), default="native", show_default=True)
def export(shared: Shared, session: str, file: str, format: str) -> None:
    """Write a session to a new FILE, or to standard output.

    A FILE that exists is not touched.
    """
    where = {} if file == "-" else {"path": str(Path(file).expanduser().absolute())}
    with connected(shared) as client:
        found = session_id(client, session)
        params = {"session_id": found, "format": format, **where}
        written = client.call_raw("session/export", **params, timeout=None)
    answer(shared, written, _write)


def _write(result: dict[str, Any]) -> None:
    if "content" in result:
        # The file itself, for another program: not a byte of it is changed.
        click.echo(result["content"].encode(), nl=False)
    for note in result.get("notes", ()):
        click.echo(note, err=True)


COMMAND = export
