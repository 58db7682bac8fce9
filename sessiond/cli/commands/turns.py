"""`sessiond turns`: show a path as requests and responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import ask, connected, read, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import emit_raw, note, say, table
from sessiond.cli.ui.pager import pager_option
from sessiond.cli.ui.render import when
from sessiond.cli.ui.text import one_line
from sessiond.visible import counted, spelled_out


@click.command(
    "turns",
    cls=Command,
    examples=("sessiond turns my-session", "sessiond turns my-session --view agent --json"),
)
@shared_options
@session_argument
@click.option(
    "--view",
    type=click.Choice(["chat", "agent"]),
    default="chat",
    show_default=True,
    help="chat for requests and responses, agent for times, status and tokens.",
)
@click.option("--head", metavar="NAME", help="Head whose path is shown.  [default: main]")
@click.option(
    "--turns",
    "-n",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Most turns to show.",
)
@pager_option
def turns(shared: Shared, session: str, view: str, head: str | None, turns: int) -> None:
    """Show the last turns of a session, the newest at the end.

    With --json: the answer of session/turns.
    """
    with connected(shared) as client:
        found = session_id(client, session)
        told = ask(
            client,
            "session/turns",
            session_id=found,
            view=view,
            head=head,
            limit=turns,
            from_end=True,
        )
    if shared.as_json:
        emit_raw(told)
        return
    page = read(told)
    if page["next_cursor"] is not None:
        note("there are earlier turns: --turns shows more")
    if view == "agent":
        headings = ("ID", "STATUS", "STARTED", "ENDED", "TOKENS")
        table(headings, [_row(turn) for turn in page["turns"]])
        return
    for turn in page["turns"]:
        say(f"{one_line(turn['id'])}  {one_line(turn['status'])}  {_time(turn['timestamp'])}")
        for mark, name in ((">", "request"), ("<", "response")):
            for block in turn[name]:
                say(f"  {mark} {_shown(block)}")


def _row(turn: dict[str, Any]) -> tuple[str, ...]:
    usage: dict[str, Any] = turn["usage"] or {}
    return (
        one_line(turn["id"]),
        one_line(turn["status"]),
        _time(turn["started_at"]),
        _time(turn["ended_at"] or ""),
        str(usage.get("total_tokens", "")),
    )


def _time(moment: str) -> str:
    """Return a time; as it is if a writer stored no time there."""
    try:
        return when(moment or None)
    except ValueError:
        return one_line(moment)


def _shown(block: dict[str, Any]) -> str:
    """Return a block as text, whose further lines are indented like the first."""
    content = block.get("content")
    words = [block["type"], *_facts(block.get("meta"))]
    said = content if isinstance(content, str) and block["type"] != "image" else ""
    if block["type"] == "text":
        return "\n    ".join(map(spelled_out, said.splitlines()))
    head = one_line(" ".join(words))
    lines = said.splitlines()
    return "\n    ".join(
        [
            f"[{head}] {spelled_out(lines[0])}" if lines else f"[{head}]",
            *map(spelled_out, lines[1:]),
        ]
    )


def _facts(meta: Any) -> Iterator[str]:
    """Yield what a block's metadata say in a word; a stored block may have any metadata."""
    facts = cast("dict[str, Any]", meta if isinstance(meta, dict) else {})
    for name in ("name", "state", "kind", "path", "language", "url"):
        if isinstance(facts.get(name), str):
            yield facts[name]
    if isinstance(facts.get("left_out"), int):
        yield f"{counted(facts['left_out'], 'byte')} left out"


COMMAND = turns
