"""`sessiond repair`: remove the bad lines of a session file, and give entries their parents."""

from __future__ import annotations

from typing import Any

import click

from sessiond.cli.arguments import session_argument
from sessiond.cli.connect.conversation import answer, ask_long, connected, whole_session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say
from sessiond.visible import counted, repaired


@click.command(
    "repair",
    cls=Command,
    examples=("sessiond repair my-session", "sessiond repair my-session --apply"),
)
@shared_options
@session_argument
@click.option(
    "--apply", is_flag=True, help="Repair; without this flag only print what would be done."
)
def repair(shared: Shared, session: str, *, apply: bool) -> None:
    """Write a session's file anew without the lines that do not parse.

    All other lines keep their bytes, and the original file goes to the trash. Whole entries on a line
    that does not parse take the place of the line. An entry goes behind its parent, or below the entry
    before if the file lacks the parent. Only files of
    sessiond's own dialect are repaired: another program may read lines that do not parse here. A
    part of a title names no session here.
    """
    with connected(shared) as client:
        found = whole_session_id(client, session)
        done = ask_long(client, "session/repair", session_id=found, dry_run=not apply)
    answer(shared, done, _show)


def _show(done: dict[str, Any]) -> None:
    for problem in done["problems"]:
        say(f"line {problem['line']}: {problem['kind']}: {problem['detail']}")
    if done.get("reason") is not None:
        say(f"no repair: {done['reason']}")
        return
    lines = ", ".join(map(str, done["dropped_lines"]))
    dropped = f"{counted(done['dropped'], 'line')} ({lines})" if done["dropped"] else ""
    what = repaired(dropped, done["recovered"], done["reparented"], done["moved"])
    kept = counted(done["kept"], "line")
    if done["dry_run"]:
        say(f"{kept} would be kept, {what}: do it with --apply")
    else:
        say(f"{kept} kept, {what}")
    if done.get("backup") is not None:
        say(f"original file: {done['backup']}")


COMMAND = repair
