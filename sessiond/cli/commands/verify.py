"""`sessiond verify`: check a session file for damage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sessiond.cli.arguments import SESSION
from sessiond.cli.connect.conversation import answer, ask_long, connected, read, session_id
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.command_terms import is_path, placed
from sessiond.cli.ui.output import say
from sessiond.cli.ui.progress import Steps
from sessiond.daemon.exit_status import Status
from sessiond.model.ids import is_session_id
from sessiond.visible import counted

if TYPE_CHECKING:
    from sessiond_client import BlockingClient


@click.command(
    "verify", cls=Command, examples=("sessiond verify session.jsonl", "sessiond verify my-session")
)
@shared_options
@click.argument("session", metavar="FILE|SESSION", type=SESSION)
@click.pass_context
def verify(ctx: click.Context, /, shared: Shared, session: str) -> None:
    """Check every line of a session file and print each problem.

    A FILE of any format that can be imported is read on disk and needs no daemon; a session is checked
    by the daemon, which knows the lines that are being written. No file changes. Exit status 1 if
    something is wrong.
    """
    if is_path(session):
        found = _look(Path(session).expanduser().absolute())
    else:
        with connected(shared) as client:
            found = ask_long(client, "session/verify", session_id=_known(client, session))
    answer(shared, found, _show)
    if not read(found)["ok"]:
        ctx.exit(Status.FAILED)


def _known(client: BlockingClient, ref: str) -> str:
    """Return the id of a session; a session that cannot be read is named by its whole id only."""
    from sessiond_client import RpcError

    try:
        return session_id(client, ref)
    except RpcError as error:
        if error.kind != "session_corrupt" or not is_session_id(ref):
            raise
    return ref


def _look(path: Path) -> bytes:
    from sessiond.cli.offline.file_formats import checked

    steps = Steps("verify")
    try:
        return msgspec.json.encode(checked(path, steps))
    finally:
        steps.end()


def _show(found: dict[str, Any]) -> None:
    for problem in found["problems"]:
        say(f"line {problem['line']}: {problem['kind']}: {problem['detail']}")
    more = found["problem_count"] - len(found["problems"])
    if more:
        say(f"and {more} more")
    verdict = "no problems" if found["ok"] else counted(found["problem_count"], "problem")
    if found["repairable"]:
        verdict += placed("; `sessiond repair` removes the lines that do not parse")
    size = f"{counted(found['lines'], 'line')}, {counted(found['entries'], 'entry')}"
    size += f", {counted(found['bytes'], 'byte')}"
    say(f"{found['dialect'] or 'no session'}, {size}: {verdict}")


COMMAND = verify
