"""`sessiond context`: print the messages that a model is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from sessiond import typed
from sessiond.cli.arguments import head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.entry_refs import entry_id as entry_meant
from sessiond.cli.entry_refs import short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, say
from sessiond.cli.ui.pager import pager_option
from sessiond.visible import counted

_TEXTS = ("content", "text", "summary", "output")


class _Sources(msgspec.Struct):
    """Source entry of each message; None is the system prompt."""

    sources: list[str | None] = []


@click.command(
    "context",
    cls=Command,
    examples=(
        "sessiond context my-session",
        "sessiond context my-session --repair --shape anthropic --system --json",
    ),
)
@shared_options
@session_argument
@head_option
@click.option(
    "--entry", "entry_id", metavar="ENTRY", help="Context at this entry instead of a head."
)
@click.option(
    "--repair", is_flag=True, default=None, help="Give every tool call exactly one result."
)
@pager_option
@click.option(
    "--shape",
    type=click.Choice(["stored", "openai", "anthropic"]),
    help="Messages as stored, or in the shape of a provider's API.  [default: stored]",
)
@click.option(
    "--system",
    "include",
    flag_value="system",
    default=None,
    help="Include the system prompt.",
)
def context(
    shared: Shared, session: str, include: str | None, entry_id: str | None, **params: Any
) -> None:
    """Print the messages that a model is sent, and about how many tokens they have."""
    with connected(shared) as client:
        found = session_id(client, session)
        built = ask_long(
            client,
            "session/build_context",
            session_id=found,
            include=[include] if include else None,
            entry_id=None if entry_id is None else entry_meant(client, found, entry_id),
            **params,
        )
        sources = typed.decode(built, _Sources).sources
        shown = short_ids(client, found, () if shared.as_json else sources)
    answer(shared, built, lambda result: _show(result, shown))


def _show(result: dict[str, Any], shown: Mapping[str | None, str]) -> None:
    # In openai's shape the system prompt is the first message.
    if (prompt := result.get("system")) and None not in result["sources"]:
        say("--- system")
        say(prompt)
    for message, source in zip(result["messages"], result["sources"], strict=True):
        name = shown[source] if source else "the system prompt"
        say(f"--- {message.get('role', '')} ({name})")
        say(_text(message))
    count = counted(len(result["messages"]), "message")
    note(f"{count}, about {counted(result['tokens'], 'token')}")


def _text(message: dict[str, Any]) -> str:
    """Return the text of a message; parts that are no text as JSON."""
    said = next((message[name] for name in _TEXTS if message.get(name) is not None), message)
    if isinstance(said, str):
        return said
    blocks = typed.convert(said, list[Any]) if isinstance(said, list) else [said]
    return "\n".join(map(_block, blocks))


def _block(block: Any) -> str:
    fields = typed.convert(block, dict[str, Any]) if isinstance(block, dict) else {}
    text = fields.get("text", block)
    return text if isinstance(text, str) else msgspec.json.encode(block).decode()


COMMAND = context
