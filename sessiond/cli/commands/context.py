"""`sessiond context`: what a model is given."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from sessiond.cli.arguments import head_option, session_argument
from sessiond.cli.asking import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.output import say
from sessiond.cli.text import counted

__all__ = ["COMMAND"]

_TEXTS = ("content", "text", "summary", "output")


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
@click.option("--entry", "entry_id", metavar="ENTRY", help="Of this entry instead of a head.")
@click.option("--repair", is_flag=True, default=None, help="Every tool call with its one result.")
@click.option(
    "--shape",
    type=click.Choice(["stored", "openai", "anthropic"]),
    help="As they are stored, or ready for a provider's API.  [default: stored]",
)
@click.option(
    "--system",
    "include",
    flag_value="system",
    default=None,
    help="With the system prompt.",
)
def context(shared: Shared, session: str, include: str | None, **params: Any) -> None:
    """Print the messages that a model is given, and about how many tokens they are."""
    with connected(shared) as client:
        built = ask_long(
            client,
            "session/build_context",
            session_id=session_id(client, session),
            include=[include] if include else None,
            **params,
        )
    answer(shared, built, _show)


def _show(result: dict[str, Any]) -> None:
    # With openai's shape it is the first message.
    if (prompt := result.get("system")) and None not in result["sources"]:
        say("--- system")
        say(prompt)
    for message, source in zip(result["messages"], result["sources"], strict=True):
        say(f"--- {message.get('role', '')} ({source or 'the system prompt'})")
        say(_text(message))
    count = counted(len(result["messages"]), "message")
    click.echo(f"{count}, about {result['tokens']} tokens", err=True)


def _text(message: dict[str, Any]) -> str:
    """What a message says; what is no text as JSON."""
    said = next((message[name] for name in _TEXTS if message.get(name) is not None), message)
    if isinstance(said, str):
        return said
    blocks = msgspec.convert(said, list[Any]) if isinstance(said, list) else [said]
    return "\n".join(map(_block, blocks))


def _block(block: Any) -> str:
    fields = msgspec.convert(block, dict[str, Any]) if isinstance(block, dict) else {}
    text = fields.get("text", block)
    return text if isinstance(text, str) else msgspec.json.encode(block).decode()


COMMAND = context
