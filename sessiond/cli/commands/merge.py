"""`sessiond merge`: bring another session's work into a session."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import (
    SESSION,
    TEXT,
    expect_option,
    head_option,
    key_option,
    session_argument,
)
from sessiond.cli.connect.conversation import answer, ask_long, connected, read, session_id
from sessiond.cli.entry_refs import Expected, expected_leaf, short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import note, say
from sessiond.cli.ui.render import copy_made, copy_planned
from sessiond.visible import counted


@click.command(
    "merge",
    cls=Command,
    examples=(
        "sessiond fork my-session --entries all --title other-try",
        "sessiond merge my-session other-try --prompt",
        'sessiond merge my-session other-try --text "Both found the cron job."',
        "sessiond merge my-session other-try --new --text @question.txt",
    ),
)
@shared_options
@session_argument
@click.argument("other", type=SESSION)
@click.option(
    "--text",
    type=TEXT,
    help='Text of the merge, written by you or by a model from the --prompt; "-": stdin, @FILE.',
)
@click.option(
    "--prompt", "only_prompt", is_flag=True, help="Print the prompt for the text; change nothing."
)
@click.option("--new", is_flag=True, help="Begin a new session with the merge.")
@head_option
@expect_option
@key_option
@click.option(
    "--dry-run", is_flag=True, default=None, help="Store nothing, print what the session would be."
)
def merge(  # noqa: PLR0913 - what click passes
    shared: Shared,
    session: str,
    other: str,
    *,
    text: str | None,
    only_prompt: bool,
    new: bool,
    expected: Expected,
    **params: Any,
) -> None:
    """Append a turn to SESSION that brings the work of OTHER into it; print the entry's id.

    The turn has two messages: the request to merge, and the text. OTHER is only read. With --new the
    turn begins a session of its own, and its id is printed.

    Without --text the daemon has the text written, by a client that offers it or by the configured
    `summarizer.command`.
    """
    if only_prompt and text is not None:
        raise click.UsageError("give --text, or --prompt to get the prompt for it")
    with connected(shared) as client:
        # SESSION comes last, so that advice about a failure names it.
        theirs, found = session_id(client, other), session_id(client, session)
        both = {"session_id": found, "other_session_id": theirs}
        if only_prompt:
            answer(shared, ask_long(client, "session/plan_merge", **both), _show_prompt)
            return
        merged = ask_long(
            client,
            "session/merge",
            **both,
            text=text,
            into="new" if new else None,
            expected=expected_leaf(client, found, expected),
            **params,
        )
        stored = read(merged).get("entry", {}).get("id")
        shown = short_ids(client, found, [stored])
    if stored is not None:
        answer(shared, merged, lambda _: say(shown[stored]))
    else:
        answer(shared, merged, copy_planned if params["dry_run"] else copy_made)


def _show_prompt(result: dict[str, Any]) -> None:
    say(result["prompt"])
    quoted = [counted(len(source["entry_ids"]), "entry") for source in result["sources"]]
    note(f"quotes {' and '.join(quoted)}; give the model's answer to --text")


COMMAND = merge
