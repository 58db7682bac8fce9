"""`sessiond export`: write a session to a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from sessiond.cli.arguments import absolute, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note
from sessiond.model.formats import FORMATS, WHOLE_FORMATS

_DOCUMENTS: Final = ("json", "markdown", "html")
# By the end of a file's name: the formats that fit, of which the first is meant where none is named.
_OF_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    ".jsonl": FORMATS,
    ".json": ("json", *WHOLE_FORMATS),
    ".md": ("markdown",),
    ".markdown": ("markdown",),
    ".html": ("html",),
    ".htm": ("html",),
}
_PARTS: Final = ("session", "tags", "heads", "labels", "tree", "entries")


@click.command(
    "export",
    cls=Command,
    examples=(
        "sessiond export my-session copy.jsonl",
        "sessiond export my-session - >copy-2.jsonl",
        "sessiond export my-session page.html",
        "sessiond export my-session --format markdown --all-branches --redact 'sk-[a-z0-9]+'",
    ),
)
@shared_options
@session_argument
@click.argument("file", type=click.Path(allow_dash=True), default="-")
@click.option(
    "--format",
    type=click.Choice([*FORMATS, *WHOLE_FORMATS, *_DOCUMENTS]),
    help="Format to write.  [default: by the end of FILE's name, else native]",
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
    and people; the other formats are files of programs. A FILE named *.jsonl is native, *.json json,
    *.md markdown and *.html html, unless a --format that fits the name says otherwise.
    """
    path = None if file == "-" else absolute(file)
    options["format"] = _format_of(file, options["format"])
    if options.pop("all_branches"):
        if options["format"] != "markdown":
            raise click.UsageError("--all-branches is for --format markdown")
        options["branches"] = "all"
    given = {name: value for name, value in options.items() if value}
    with connected(shared) as client:
        found = session_id(client, session)
        written = ask_long(client, "session/export", session_id=found, path=path, **given)
    answer(shared, written, _write)


def _format_of(file: str, wanted: str | None) -> str:
    """Return the format that is wanted, or that the file's name tells. Raise UsageError for two."""
    suffix = Path(file).suffix.lower()
    fitting = _OF_NAMES.get(suffix)
    if fitting is None:
        return wanted or "native"
    if wanted not in {None, *fitting}:
        raise click.UsageError(
            f"a file named *{suffix} holds {' or '.join(fitting)}, and --format says {wanted}:"
            f" name the file otherwise, or leave --format out for {fitting[0]}"
        )
    return wanted or fitting[0]


def _write(result: dict[str, Any]) -> None:
    if "content" in result:
        # The content of the file for another program, byte for byte.
        click.echo(result["content"].encode(), nl=False)
    for text in result.get("notes", ()):
        note(text)


COMMAND = export
