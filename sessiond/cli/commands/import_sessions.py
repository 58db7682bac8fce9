"""`sessiond import`: copy session files into the profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Raw

from sessiond.cli.arguments import FOLDER, absolute, standard_input
from sessiond.cli.connect.conversation import ask_long, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.failures import explain, report
from sessiond.cli.ui.output import emit_raw, note, say
from sessiond.daemon.exit_status import Status
from sessiond.model.formats import FORMATS

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["COMMAND"]


@click.command(
    "import",
    cls=Command,
    examples=("sessiond import session.jsonl", "sessiond import --cwd . - <session.jsonl"),
)
@shared_options
@click.option("--format", type=click.Choice(["auto", *FORMATS]), default="auto")
@click.option("--cwd", type=FOLDER, help="Project of the copies.  [default: as in the file]")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True)
)
@click.pass_context
def import_sessions(
    ctx: click.Context, /, shared: Shared, files: tuple[str, ...], **params: Any
) -> None:
    """Copy session files in under new ids, and print each id; "-" is standard input.

    The files are read, never written. A file that cannot be imported does not stop the next ones;
    the exit status is then 1. With --json: {"imported": [{"file", "session", "report"}],
    "failed": [{"file", "error"}]}.
    """
    imported: list[dict[str, Raw]] = []
    failed: list[dict[str, Any]] = []
    with connected(shared) as client:
        for file in files:
            try:
                result = _import(client, file, params)
            except Exception as error:
                failure = explain(error)
                # Without a daemon the next files would fail too.
                if failure is None or failure.status is Status.NO_DAEMON:
                    raise
                if failure.facts.get("kind") == "session_corrupt":
                    # No session was made, so the advice names the file.
                    then = f"see `sessiond verify {file}`, `sessiond dump {file}`"
                    failure = Failure(failure.what, then, failure.status, failure.facts)
                report(failure.about(file), as_json=False)
                failed.append({"file": file, "error": failure.body()})
                continue
            imported.append({"file": _raw(file), **result})
            if not shared.as_json:
                _say(result)
    if shared.as_json:
        emit_raw(msgspec.json.encode({"imported": imported, "failed": failed}))
    if failed:
        ctx.exit(Status.FAILED)


def _import(client: BlockingClient, file: str, params: dict[str, Any]) -> dict[str, Raw]:
    source = {"path": absolute(file)} if file != "-" else {"content": standard_input()}
    result = ask_long(client, "session/import", **params, **source)
    return msgspec.json.decode(result, type=dict[str, Raw])


def _say(result: dict[str, Raw]) -> None:
    say(msgspec.json.decode(result["session"])["id"])
    twins = msgspec.json.decode(result.get("twins", b"[]"))
    if twins:
        note(f"this is a second copy: {', '.join(twins)} has an equal beginning")
    problems = msgspec.json.decode(result["report"])["problems"]
    for problem in problems:
        note(f"line {problem['line']}: {problem['kind']}: {problem['detail']}")


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


COMMAND = import_sessions
