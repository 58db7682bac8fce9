"""`sessiond export`: write a session to a file of its own."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import absolute, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note
from sessiond.model.formats import FORMATS

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
@click.option("--format", type=click.Choice(FORMATS), default="native", show_default=True)
def export(shared: Shared, session: str, file: str, format: str) -> None:
    """Write a session to a new FILE, or to standard output.

    An existing FILE is not touched.
    """
    path = None if file == "-" else absolute(file)
    with connected(shared) as client:
        found = session_id(client, session)
        written = ask_long(client, "session/export", session_id=found, format=format, path=path)
    answer(shared, written, _write)


def _write(result: dict[str, Any]) -> None:
    if "content" in result:
        # The content of the file for another program, byte for byte.
        click.echo(result["content"].encode(), nl=False)
    for text in result.get("notes", ()):
        note(text)


COMMAND = export
