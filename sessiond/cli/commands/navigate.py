"""`sessiond navigate`: go to an entry as a person means it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sessiond.cli.arguments import TEXT, expect_option, head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, read, session_id
from sessiond.cli.entry_refs import Expected, entry_or_null, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.output import note, say
from sessiond.visible import counted


@click.command(
    "navigate",
    cls=Command,
    examples=(
        "sessiond navigate my-session entry-1",
        "sessiond navigate my-session entry-2 --label here",
        "sessiond navigate my-session null --prompt",
        'sessiond navigate my-session null --summary "It was the cron job."',
        'sessiond navigate my-session null --prompt --instructions "Name the files."',
    ),
)
@shared_options
@session_argument
@click.argument("entry")
@head_option
@click.option(
    "--summary",
    type=TEXT,
    help='Summary of the abandoned branch, for the model; "-": stdin, @FILE.',
)
@click.option(
    "--summarize",
    is_flag=True,
    default=None,
    help="Have the summary of the abandoned branch written.",
)
@click.option(
    "--instructions",
    type=TEXT,
    help="Focus of the summary that --summarize has written, or of the prompt of --prompt.",
)
@click.option("--label", help="Label for the summary; without a summary for ENTRY.")
@click.option(
    "--prompt",
    "only_prompt",
    is_flag=True,
    help="Print the prompt for a summary of the branch that would be abandoned; move nothing.",
)
@expect_option
def navigate(
    shared: Shared,
    session: str,
    entry: str,
    *,
    only_prompt: bool,
    expected: Expected,
    **params: Any,
) -> None:
    """Go to ENTRY ("null": before the first one) as a person means it; print the new leaf.

    At a message of the user the head goes before the message, and the text of the message is
    printed below the leaf, to be changed and sent again. Any other entry becomes the leaf.
    `sessiond branch` makes every entry the leaf, and makes new heads.

    With --summarize a client that offers it writes the summary, or the configured
    `summarizer.command`. The head moves once the summary is there. If there is nothing to tell of
    the branch, the head moves without a summary.
    """
    if only_prompt:
        if expected or params["summary"] or params["summarize"] or params["label"]:
            raise click.UsageError(
                "--prompt moves nothing: leave --summary, --summarize, --label and --expect-leaf out"
            )
        _print_prompt(shared, session, entry, params)
        return
    if params["summarize"] and params["summary"] is not None:
        raise click.UsageError("give the --summary, or have it written with --summarize")
    if params["instructions"] is not None and not params["summarize"]:
        raise click.UsageError("--instructions are for --summarize and --prompt")
    with connected(shared) as client:
        found = session_id(client, session)
        moved = ask_long(
            client,
            "session/navigate",
            session_id=found,
            entry_id=entry_or_null(client, found, entry),
            expected=expected_leaf(client, found, expected),
            **params,
        )
        leaf = read(moved)["leaf_id"]
        shown = short_ids(client, found, [leaf])
    answer(shared, moved, lambda result: _show(result, shown))


def _show(result: dict[str, Any], shown: Mapping[str | None, str]) -> None:
    say(shown[result["leaf_id"]])
    text = result["editor_text"]
    if not result["moved"]:
        note("the head was there already")
    if text is not None:
        note("the text of that message, to be changed and sent again:")
        say(text)


def _print_prompt(shared: Shared, session: str, entry: str, params: Mapping[str, Any]) -> None:
    """Print the prompt for a summary of the entries that the head would leave."""
    with connected(shared) as client:
        found = session_id(client, session)
        target = entry_or_null(client, found, entry)
        planned = ask_long(
            client,
            "session/plan_branch_summary",
            session_id=found,
            entry_id=target,
            head=params["head"],
            instructions=params["instructions"],
        )
    answer(shared, planned, _show_prompt)


def _show_prompt(result: dict[str, Any]) -> None:
    if result["prompt"] is None:
        raise Failure("the branch leaves nothing to tell", "go on without a summary")
    say(result["prompt"])
    entries, tokens = counted(len(result["entries"]), "entry"), counted(result["tokens"], "token")
    note(f"{entries} to summarise, about {tokens}; give the summary to --summary")


COMMAND = navigate
