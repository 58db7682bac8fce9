"""`sessiond label`: label entries, and list the labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import NULL, answer, ask, connected, read, session_id
from sessiond.cli.entry_refs import entry_id, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, say, table
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import when

if TYPE_CHECKING:
    from sessiond_client import BlockingClient


@click.command(
    "label",
    cls=Command,
    examples=(
        "sessiond label my-session entry-1 start",
        "sessiond label my-session",
        "sessiond label my-session entry-1 --clear",
    ),
)
@shared_options
@session_argument
@click.argument("entry", required=False)
@click.argument("label", required=False)
@pager_option
@click.option("--clear", is_flag=True, help="Clear the label of ENTRY.")
def label(
    shared: Shared, session: str, entry: str | None, label: str | None, *, clear: bool
) -> None:
    """Label an entry and print the label's seq; without ENTRY, list the labels."""
    if entry is not None and (label is None) is not clear:
        raise click.UsageError("give a LABEL for the entry, or --clear")
    with connected(shared) as client:
        found = session_id(client, session)
        if entry is None:
            labels = _labels(client, found)
            rows = read(labels)["labels"]
            shown = short_ids(client, found, (at["entry_id"] for at in rows))
            answer(shared, labels, lambda result: _show(result, shown))
            return
        entry = entry_id(client, found, entry)
        done = ask(client, "session/label", session_id=found, entry_id=entry, label=label or NULL)
    answer(shared, done, lambda result: say(str(result["seq"])))


def _labels(client: BlockingClient, session_id: str) -> bytes:
    """Return all pages as one."""
    whole = read(ask(client, "session/labels", session_id=session_id))
    while (cursor := whole["next_cursor"]) is not None:
        page = ask(client, "session/labels", session_id=session_id, cursor=cursor)
        more = read(page)
        whole["labels"] += more["labels"]
        whole["next_cursor"] = more["next_cursor"]
    return msgspec.json.encode(whole)


def _show(result: dict[str, Any], shown: Mapping[str | None, str]) -> None:
    rows = [(shown[at["entry_id"]], at["label"], when(at["timestamp"])) for at in result["labels"]]
    table(("ENTRY", "LABEL", "SINCE"), rows)
    if not rows:
        note("no entry has a label: give one with `sessiond label SESSION ENTRY LABEL`")


COMMAND = label
