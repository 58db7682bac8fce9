"""`sessiond prune`: keep only the newest decisions in view."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say


@click.command(
    "prune",
    cls=Command,
    examples=(
        "sessiond prune my-session --dry-run",
        "sessiond prune my-session --max-decisions 5",
    ),
)
@shared_options
@session_argument
@click.option(
    "--max-decisions", type=int, metavar="N", help="Decisions that stay in view.  [default: 10]"
)
@click.option(
    "--max-tokens", type=int, metavar="N", help="Tokens above which to prune.  [default: 150000]"
)
@click.option("--force", is_flag=True, default=None, help="Prune below the limits too.")
@click.option("--dry-run", is_flag=True, default=None, help="Only say whether a prune is due.")
def prune(shared: Shared, session: str, **params: Any) -> None:
    """Keep only the newest decisions of SESSION in view, if a limit is passed. The log keeps all."""
    with connected(shared) as client:
        found = session_id(client, session)
        done = ask(client, "session/prune", session_id=found, **params)
    answer(shared, done, lambda result: say(_told(result)))


def _told(result: dict[str, Any]) -> str:
    why = " and ".join(result["reasons"])
    if result["pruned"]:
        return f"pruned ({why})"
    return f"would prune ({why})" if result["would_prune"] else "nothing to prune"


COMMAND = prune
