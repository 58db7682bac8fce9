"""`sessiond search`: find entries by their text."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import MOMENT, SESSION, archived_option, project_options
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, table
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import short_session_ids
from sessiond.visible import hit_text, unsearched


@click.command(
    "search",
    cls=Command,
    examples=(
        "sessiond search cron job",
        "sessiond search --here '\"cron job\" lat'",
        "sessiond search --session my-session late",
        "sessiond search --tool Bash --since 7d ECONNREFUSED",
        "sessiond search --archived any late --json",
    ),
)
@shared_options
@click.option(
    "--session",
    type=SESSION,
    help="Only in SESSION, whatever the other options leave out.",
)
@click.option(
    "--role",
    type=click.Choice(["user", "assistant", "tool", "custom", "summary", "title"]),
    help="Only what this role said: a call is the assistant's, an output the tool's.",
)
@click.option("--tool", metavar="NAME", help="Only calls of this tool and their outputs.")
@click.option(
    "--since",
    type=MOMENT,
    help="Only entries since TIME: a date, RFC 3339, or 30m, 12h, 7d for a time ago.",
)
@project_options
@archived_option
@pager_option
@click.option(
    "--drafts",
    is_flag=True,
    default=None,
    help="Include drafts: sessions without an assistant message.",
)
@click.option(
    "--subagents",
    is_flag=True,
    default=None,
    help="Include sessions that an agent started for a task of another session.",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Most entries to find.",
)
@click.argument("words", nargs=-1, required=True)
def search(shared: Shared, words: tuple[str, ...], session: str | None, **params: Any) -> None:
    """Find the entries that hold all the WORDS, the best first.

    Words are found in titles, messages, and calls of tools with their outputs.
    A word may lack its last letters; words in double quotes are a phrase. Case and
    accents make no difference. Of Chinese, Japanese, Korean, Thai and other text
    without blanks any part is found. An ENTRY of "-" is the title or the folder of the session.
    """
    query = " ".join(words)
    if not any(character.isalnum() or not character.isascii() for character in query):
        raise click.UsageError("give a word to search for")
    with connected(shared) as client:
        if session is not None:
            params["session_id"] = session_id(client, session)
        found = ask_long(client, "session/search", query=query, **params)
    answer(shared, found, _show)


def _show(result: dict[str, Any]) -> None:
    hits = result["hits"]
    shown = short_session_ids(hit["session_id"] for hit in hits)
    rows = [
        (
            *(shown[hit["session_id"]], hit["entry_id"] or "-", str(hit["seq"])),
            hit_text(hit["snippet"], hit.get("tool"), checked=hit.get("checked", True)),
        )
        for hit in hits
    ]
    table(("SESSION", "ENTRY", "SEQ", "TEXT"), rows, cut=("TEXT",))
    for file in result.get("unreadable", ()):
        note(f"not searched: {file['path']}: {file['reason']}")
    for one in result.get("unsearched", ()):
        note(f"not searched: {unsearched(one['texts'], one['before'])}; see limits.index_bytes")
    if not hits:
        note(
            "no entry holds all words; --archived any, --drafts and --subagents search more sessions"
        )


COMMAND = search
