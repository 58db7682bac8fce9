"""`sessiond export`: write a session to a file of its own."""

from __future__ import annotations

from typing import Any, Final

import click

from sessiond.cli.arguments import absolute, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note
from sessiond.model.formats import FORMATS, WHOLE_FORMATS

__all__ = ["COMMAND"]

_DOCUMENTS: Final = ("json", "markdown", "html")
_PARTS: Final = ("session", "tags", "heads", "labels", "tree", "entries")


@click.command(
    "export",
    cls=Command,
    examples=(
        "sessiond export my-session copy.jsonl",
        "sessiond export my-session - >copy-2.jsonl",
        "sessiond export my-session --format html page.html",
        "sessiond export my-session --format markdown --all-branches --redact 'sk-[a-z0-9]+'",
    ),
)
@shared_options
@session_argument
@click.argument("file", type=click.Path(allow_dash=True), default="-")
@click.option(
    "--format",
    type=click.Choice([*FORMATS, *WHOLE_FORMATS, *_DOCUMENTS]),
    default="native",
    show_default=True,
    help="Format to write.",
)
@click.option("--head", metavar="NAME", help="Head whose path a document follows.")
@click.option("--all-branches", is_flag=True, help="Every branch, in Markdown.")
@click.option(
    "--include",
    multiple=True,
    type=click.Choice(_PARTS),
    metavar="PART",
    help=f"Part of JSON: {', '.join(_PARTS)}.",
)
@click.option(
    "--redact",
    multiple=True,
    metavar="REGEX",
    help="Replace texts that match in a document by [redacted].",
)
def export(shared: Shared, session: str, file: str, **options: Any) -> None:
    """Write a session to a new FILE, or to standard output.

    An existing FILE is not touched. json, markdown and html are documents, to be read by programs
    and people; the other formats are files of programs.
    """
    path = None if file == "-" else absolute(file)
    if options.pop("all_branches"):
        if options["format"] != "markdown":
            raise click.UsageError("--all-branches is for --format markdown")
        options["branches"] = "all"
    given = {name: value for name, value in options.items() if value}
    with connected(shared) as client:
        found = session_id(client, session)
        written = ask_long(client, "session/export", session_id=found, path=path, **given)
    answer(shared, written, _write)


def _write(result: dict[str, Any]) -> None:
    if "content" in result:
        # The content of the file for another program, byte for byte.
        click.echo(result["content"].encode(), nl=False)
    for text in result.get("notes", ()):
        note(text)


COMMAND = export
