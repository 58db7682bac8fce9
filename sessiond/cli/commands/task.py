"""`sessiond task`: count a turn of an agent, with its decision."""

from __future__ import annotations

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command(
    "task",
    cls=Command,
    examples=(
        'sessiond task my-session "Add registration" --tokens 4200',
        'sessiond task my-session --decision "E-mail first" --why "no phones"',
    ),
)
@shared_options
@session_argument
@click.argument("task", required=False)
@click.option("--decision", help="Decision of this turn.")
@click.option("--why", "rationale", help="Reason for the decision.")
@click.option("--tokens", "tokens_added", type=int, metavar="N", help="Tokens that were used.")
@click.option("--turns", "turns_added", type=int, metavar="N", help="Turns to count.  [default: 1]")
@click.option("--key", "idempotency_key", help="Key that makes it safe to run the command again.")
def count_task(
    shared: Shared, session: str, *, decision: str | None, rationale: str | None, **params: object
) -> None:
    """Count a turn of SESSION, and print the brief that a resumed turn begins with."""
    if rationale is not None and decision is None:
        raise click.UsageError("--why is the reason for a --decision")
    made = None if decision is None else {"decision": decision, "rationale": rationale}
    with connected(shared) as client:
        found = session_id(client, session)
        done = ask(client, "session/task", session_id=found, decision=made, **params)
    answer(shared, done, lambda result: say(result["context"]))


COMMAND = count_task
