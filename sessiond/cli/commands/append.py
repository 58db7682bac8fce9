"""`sessiond append`: store an entry."""

from __future__ import annotations

import time
from typing import Any

import click
from msgspec import Raw

from sessiond.cli.arguments import (
    JSON_OBJECT,
    TEXT,
    expect_option,
    head_option,
    key_option,
    session_argument,
    text_of_input,
)
from sessiond.cli.connect.conversation import answer, ask, connected, find, read
from sessiond.cli.entry_refs import Expected, entry_or_null, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command(
    "append",
    cls=Command,
    examples=(
        'sessiond append my-session "Why is it late?"',
        "echo 'The cron job.' | sessiond append my-session --role assistant",
        """sessiond append my-session --json-message '{"role":"user","content":"And now?"}'""",
        "sessiond append my-session @question.txt",
        """sessiond append my-session --entry '{"type":"custom","custom_type":"note","data":1}'""",
    ),
)
@shared_options
@session_argument
@click.argument("text", type=TEXT, required=False)
@click.option("--role", default="user", show_default=True, help="Role of the message.")
@click.option("--json-message", "message", type=JSON_OBJECT, help='Whole message; "-": from stdin.')
@click.option("--entry", type=JSON_OBJECT, help='Whole entry; "-": from stdin.')
@head_option
@click.option(
    "--parent", "parent_id", metavar="ENTRY", help='Parent of the new entry ("null": none).'
)
@expect_option
@key_option
def append(  # noqa: PLR0913 - what click passes
    shared: Shared,
    session: str,
    text: str | None,
    role: str,
    message: Raw | None,
    entry: Raw | None,
    parent_id: str | None,
    expected: Expected,
    **params: Any,
) -> None:
    """Store TEXT, or standard input, as a message, and print the id of its entry.

    A TEXT of "-" is standard input, @FILE is the content of the file ("@@" begins a TEXT with "@");
    the line break at the end of either is not part of the message.
    """
    if sum(given is not None for given in (text, message, entry)) > 1:
        raise click.UsageError("give one of TEXT, --json-message, --entry")
    if text is None and message is None and entry is None:
        text = text_of_input()
    if text == "":
        # An empty text is more often a failed program before the pipe than an empty message.
        raise click.UsageError(
            "the text is empty: give TEXT, or --json-message for a whole message"
        )
    with connected(shared) as client:
        known = find(client, session)
        if text is not None:
            message = _message(role, text, known["dialect"])
        stored = ask(
            client,
            "session/append",
            session_id=known["id"],
            message=message,
            entry=entry,
            parent_id=entry_or_null(client, known["id"], parent_id),
            expected=expected_leaf(client, known["id"], expected),
            **params,
        )
        ids = [entry["id"] for entry in read(stored)["entries"]]
        shown = short_ids(client, known["id"], ids)
    answer(shared, stored, lambda _: say("\n".join(shown[one] for one in ids)))


def _message(role: str, text: str, dialect: str) -> Raw:
    """Return the message in the dialect's spelling. Raises UsageError for a role without texts."""
    # Only this option needs the dialects, and the other ones start faster without them.
    from sessiond.dialects import dialect_named
    from sessiond.model.formats import FORMATS
    from sessiond.model.parsed_message import Block, ParsedMessage
    from sessiond.model.times import rfc3339

    spoken = ParsedMessage(role, (Block("text", text=text),))
    # A file of another agent takes no message in any spelling: the daemon says so.
    spelling = dialect_named(dialect if dialect in FORMATS else "native")
    made = spelling.compose(spoken, rfc3339(time.time()))
    if not made:
        raise click.UsageError(
            f"a {dialect} file has no message of the role {role} that is only a text:"
            " send the whole message with --json-message"
        )
    return made[0]


COMMAND = append
