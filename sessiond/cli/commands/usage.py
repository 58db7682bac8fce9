"""`sessiond usage`: print how full the model's window is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from sessiond.cli.arguments import head_option, session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.command_terms import placed
from sessiond.cli.ui.render import facts, usage_facts
from sessiond.visible import counted


@click.command(
    "usage",
    cls=Command,
    examples=("sessiond usage my-session", "sessiond usage my-session --window 32000 --json"),
)
@shared_options
@session_argument
@head_option
@click.option(
    "--window",
    "context_window",
    type=click.IntRange(min=1),
    metavar="TOKENS",
    help="Size of the model's window.  [default: the session's setting]",
)
def usage(shared: Shared, session: str, **params: Any) -> None:
    """Print how full the model's window is at a head, and what the session has used.

    The tokens of the context are an estimate. The totals are those that the answers of the model
    state, on all branches.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        used = ask_long(client, "session/usage", session_id=found, **params)
    answer(shared, used, lambda result: facts(_facts(result)))


def _facts(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    tokens, window = result["tokens"], result["window"]
    yield "context", f"about {counted(tokens, 'token')}, {tokens / window:.0%} of {window}"
    yield "reserve", counted(result["reserve"], "token")
    now = placed("now: see `sessiond compact`")
    yield "compact", now if result["should_compact"] else "not yet"
    yield from usage_facts(result["totals"])


COMMAND = usage
