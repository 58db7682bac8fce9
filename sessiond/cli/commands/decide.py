"""`sessiond decide`: remember a key decision."""

from __future__ import annotations

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command(
    "decide",
    cls=Command,
    examples=(
        'sessiond decide my-session "Use SQLite" --why "one file"',
        'sessiond decide my-session "No ORM" --key turn-7',
    ),
)
@shared_options
@session_argument
@click.argument("decision")
@click.option("--why", "rationale", help="Reason for the decision.")
@click.option("--key", "idempotency_key", help="Key that makes it safe to run the command again.")
def decide(
    shared: Shared,
    session: str,
    decision: str,
    rationale: str | None,
    idempotency_key: str | None,
) -> None:
    """Remember a key decision of SESSION, and print the number of decisions since the last prune."""
    with connected(shared) as client:
        found = session_id(client, session)
        made = ask(
            client,
            "session/decide",
            session_id=found,
            decision=decision,
            rationale=rationale,
            idempotency_key=idempotency_key,
        )
    answer(shared, made, lambda result: say(str(result["state"]["metrics"]["decision_count"])))


COMMAND = decide
