"""`sessiond plan`: print the prompt for a compaction's summary."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import TEXT, head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, find, read
from sessiond.cli.entry_refs import short_ids
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.output import note, say
from sessiond.visible import counted

_REASONS = {
    "empty": "there is no entry yet",
    "compacted": "the head is right below a compaction",
    "fits": "all entries fit into the kept tokens; --keep TOKENS keeps fewer",
}


@click.command(
    "plan",
    cls=Command,
    examples=(
        "sessiond plan my-session --keep 1",
        'sessiond compact my-session --summary s --plan "$(sessiond plan my-session --keep 1 --id)"',
    ),
)
@shared_options
@session_argument
@click.option(
    "--keep",
    "keep_recent_tokens",
    type=click.IntRange(min=0),
    metavar="TOKENS",
    help="About how many tokens of the newest messages to keep.  [default: the session's setting]",
)
@click.option("--instructions", type=TEXT, help="Focus of the summary.")
@click.option("--id", "only_id", is_flag=True, help="Print the plan's id instead of its prompt.")
@head_option
def plan(shared: Shared, session: str, *, only_id: bool, **params: Any) -> None:
    """Print the prompt for the summary of a compaction; no entry changes.

    Give the model's answer to `sessiond compact SESSION --plan ID --summary -`.
    """
    with connected(shared) as client:
        session_id = find(client, session)["id"]
        planned = ask_long(client, "session/plan_compaction", session_id=session_id, **params)
        plan = read(planned)["plan"]
        first = None if plan is None else plan["first_kept_entry_id"]
        shown = short_ids(client, session_id, [first])
    answer(shared, planned, lambda result: _show(result, shown[first], only_id=only_id))


def _show(result: dict[str, Any], first_kept: str, *, only_id: bool) -> None:
    found = result["plan"]
    if found is None:
        raise Failure("there is nothing to compact", _REASONS.get(result["reason"], "go on"))
    say(found["plan_id"] if only_id else found["prompt"])
    count = counted(len(found["summarize"]) + len(found["turn_prefix"]), "entry")
    tokens = counted(found["tokens_before"], "token")
    note(f"{count} to summarise, kept from {first_kept} on; about {tokens} now")


COMMAND = plan
