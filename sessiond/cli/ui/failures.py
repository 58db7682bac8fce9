"""Exceptions as failures: one line that says what to do next, and an exit status.

Law: every failure that a user can meet passes through `explain`; an exception that `explain`
does not know is a bug and keeps its traceback.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from errno import errorcode
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from sessiond.cli.ui.command_terms import in_commands, in_terms_of, is_path, placed, running_command
from sessiond.cli.ui.failure import Failure, forget_output, missing_client
from sessiond.daemon.exit_status import Status
from sessiond.errors import SessiondError
from sessiond.visible import spelled_out

if TYPE_CHECKING:
    from sessiond_client import SessiondClientError


_NOT_FOUND: Final = frozenset(
    {"session_not_found", "entry_not_found", "head_not_found", "ambiguous_ref"}
)

# Next step by the kind of the daemon's error; {session} is the user's text for SESSION.
_NEXT: Final[Mapping[str, str]] = {
    "ambiguous_ref": "use an id",
    "cancelled": "run it again if you still want it",
    "draining": "the daemon is stopping; try again in a moment",
    "entry_exists": "leave the id out, or use another id",
    "entry_invalid": "see `sessiond schema` for the types of entries",
    "entry_not_found": "see `sessiond tail {session}` for the ids",
    "head_not_found": (
        "see `sessiond heads {session}`; `sessiond branch {session} ENTRY --head NAME` makes one"
    ),
    "idempotency_conflict": "use another key for another entry",
    "internal": "this is a bug of sessiond; find the incident id in the log of the daemon",
    "invalid_params": "see `sessiond schema` for what the method takes",
    "lease_held": (
        "try again when that client has ended, or append to another head:"
        " `sessiond branch {session} ENTRY --head NAME` makes one"
    ),
    "method_not_found": "see `sessiond call --list` for the methods of this daemon",
    "nothing_to_compact": "go on; no compaction is needed",
    "overloaded": "try again in a moment",
    "permission_denied": "use a connection with more access",
    "precondition_failed": "look at the new entries (`sessiond tail {session}`) and decide again",
    "revision_mismatch": "read the value again (`get`, with --json) and decide by its revision",
    "secret_corrupt": "see `sessiond doctor`",
    "secret_key_unavailable": "see `sessiond doctor`",
    "session_archived": "bring it back first: `sessiond unarchive {session}`",
    "session_corrupt": "see `sessiond verify {session}`, then `sessiond repair {session}`",
    "session_exists": "use another id",
    "session_read_only": (
        "`sessiond import FILE` makes a session of it that can be changed, `sessiond fork {session}` too"
    ),
    "session_locked": "another process holds its file; try again when it has ended",
    "session_not_found": "see `sessiond list --archived any --drafts` for all sessions",
    "storage_error": "see the log of the daemon and the disk, then run it again",
    "plan_stale": "look at the new entries (`sessiond tail {session}`), then run it again with a new text",
    "summarizer_unavailable": "give the summary with --summary",
    "too_large": "ask for less, or send less",
    "version_unsupported": "restart the daemon: `sessiond restart`",
    "vetoed": "settle it with that client, or do something else",
}
_CHECK_PATH: Final = "check the path and its permissions"
_NEXT_BY_ERRNO: Final[Mapping[str, str]] = {
    "EEXIST": "choose another name, or move what is there out of the way",
    "ENOENT": "make the folder first, or give another path",
    "ENOTDIR": "give another path",
    "ENAMETOOLONG": "give a shorter path",
    "ENOSPC": "make room on that disk",
    "EDQUOT": "make room: the quota is used up",
    "EROFS": "the file system is mounted read-only: give another path, or mount it for writing",
}
# Next step by the command and the kind.
_NEXT_BY_COMMAND: Final[Mapping[tuple[str, str], str]] = {
    ("call", "invalid_params"): _NEXT["invalid_params"],
    ("new", "session_exists"): (
        "use another id; `sessiond new --open --id {session}` takes the existing session"
    ),
    ("purge", "session_not_found"): "see `sessiond trash` for the ids",
    ("restore", "session_not_found"): "see `sessiond trash` for the ids",
}
_NO_SESSION_FILE: Final = (
    "see `sessiond verify {session}`; if the file is no session, give another path"
)
_NOT_REPAIRABLE: Final = (
    "see `sessiond verify {session}`; `sessiond delete {session}` moves the session to the trash"
)
# Next step after summarizer_unavailable by its purpose.
_NEXT_BY_PURPOSE: Final[Mapping[str, str]] = {
    "merge": "get the prompt with --prompt, and give the text with --text",
    "squash": "give the summary with --summary; --json prints the prompt for it",
    "branch": "get the prompt with --prompt, and give the summary with --summary",
}
# Commands that show what a mutation without an answer changed, by the methods that show it.
CHECKS: Final[Mapping[str, str]] = {
    "secret/list": "look at `sessiond secret list`",
    "server/ping": "look at `sessiond status`",
    "session/entries": "look at `sessiond tail {session}`",
    "session/get": "look at `sessiond show {session}`",
    "session/heads": "look at `sessiond heads {session}`",
    "session/labels": "look at `sessiond label {session}`",
    "session/list": "look at `sessiond list --archived any --drafts`",
    "session/trash": "look at `sessiond trash`",
    "session/verify": "look at `sessiond verify {session}`",
    "state/get": "look at `sessiond state list`",
    "state/list": "look at `sessiond state list`",
}
_SESSION_COMMAND: Final = re.compile(r"`sessiond \w+ \{session\}[^`]*`")
# _ADVISES: the daemon's advice differs by method, so a command repeats it ("WHAT: ADVICE").
# _ADVISED: the daemon's advice speaks of the protocol, so a command gives its own advice.
# _OF_PARAMETERS: `path` names a parameter, not a file.
_ADVISES: Final = frozenset({"session_exists", "secret_key_unavailable"})
_OF_PARAMETERS: Final = frozenset(
    {"ambiguous_ref", "entry_not_found", "invalid_params", "session_not_found"}
)
_ADVISED: Final = frozenset(
    {
        *("ambiguous_ref", "head_not_found", "precondition_failed", "session_archived"),
        *("session_read_only", "summarizer_unavailable"),
    }
)


def explain(error: Exception, session: str | None = None) -> Failure | None:
    """Return the failure behind an exception; None if the exception is a bug.

    `session` is the user's text for the command's session.
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, ImportError):
        # Before anything below imports of the client, too.
        is_client = (error.name or "").partition(".")[0] == "sessiond_client"
        return missing_client() if is_client else None
    if isinstance(error, click.ClickException):
        return usage(error)
    if isinstance(error, OSError):
        return _os_failure(error)
    if isinstance(error, UnicodeError):
        facts = {"kind": "not_utf8"}
        return Failure("the input is not UTF-8", "convert it first", Status.USAGE, facts)
    if isinstance(error, RuntimeError) and "home directory" in str(error):
        # pathlib and platformdirs raise this for "~", and for a user without a database entry.
        then = "set $HOME, or name the folder: --home, $SESSIOND_HOME"
        return Failure(str(error).rstrip("."), then, facts={"kind": "no_home"})
    if isinstance(error, SessiondError):
        # Raised by the command's own work on a file.
        return _refusal(error.code, error.message, error.data(), session)
    # If the client was never imported, its errors were never raised: no import is needed.
    return _of_client(error, session) if "sessiond_client" in sys.modules else None


def _of_client(error: Exception, session: str | None) -> Failure | None:
    """Return the failure behind an exception of the client; None for any other exception."""
    from sessiond_client import RpcError, SessiondClientError

    if isinstance(error, RpcError):
        return _refusal(error.code, error.message, error.data, session)
    return _lost(error, session) if isinstance(error, SessiondClientError) else None


def usage(error: click.ClickException) -> Failure:
    """Return the failure for click's error about a command line."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = "sessiond" if context is None else context.command_path
    what = " ".join(error.format_message().split()).rstrip(".")
    return Failure(what, f"see `{path} --help`", Status.USAGE, {"kind": "usage"})


def in_place(failure: Failure) -> Failure:
    """Return the failure with commands about the daemon that the command line names."""
    return Failure(placed(failure.what), placed(failure.then), failure.status, failure.facts)


def report(failure: Failure, *, as_json: bool) -> Status:
    """Print the failure on standard error, for programs also on standard output; return the status."""
    failure = in_place(failure)
    line = f"sessiond: {failure.what}: {failure.then}"
    click.echo(spelled_out(line.replace("\n", " ")), err=True)
    if as_json:
        from sessiond.cli.ui.output import emit

        try:
            emit({"error": failure.body()})
        except BrokenPipeError:
            raise
        except OSError:
            # Standard error has told it.
            forget_output()
    return failure.status


def _os_failure(error: OSError) -> Failure:
    """Return the failure for a failed system call of this process."""
    facts = {"kind": "os_error"}
    if isinstance(error, FileNotFoundError) and error.filename is None and not _stands_somewhere():
        what = "the folder that this command was started in does not exist any more"
        return Failure(what, "change to an existing folder with cd", facts=facts)
    why = error.strerror or (str(error.args[0]) if error.args else type(error).__name__)
    where = "" if error.filename is None else f"{error.filename}: "
    name = errorcode.get(error.errno or 0, "")
    # ENOENT here is a file to be read, so "make the folder first" would be wrong advice.
    then = _CHECK_PATH if name == "ENOENT" else _NEXT_BY_ERRNO.get(name, _CHECK_PATH)
    return Failure(f"{where}{why}", then, facts=facts)


def _stands_somewhere() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _refusal(
    code: int, message: str, data: Mapping[str, Any], session: str | None = None
) -> Failure:
    kind = data.get("kind", "")
    status = Status.NOT_FOUND if kind in _NOT_FOUND else Status.FAILED
    session = session or data.get("session_id")
    then = _next(kind, message, data)
    if then is _NOT_REPAIRABLE and is_path(session or ""):
        then = _NO_SESSION_FILE
    then = _about(then, session)
    if kind in _ADVISES and ": " in message:
        message, then = message.split(": ", 1)
    if kind in _ADVISED:
        message = re.split("[;:] ", message)[0]
    path = data.get("path")
    running = running_command()
    if running is not None and running[0] != "call":
        message = in_commands(message, session)
        if kind in _OF_PARAMETERS:
            message, path = in_terms_of(running[1], message, data)
    what = f"{message} ({path})" if path and path not in message else message
    matches: list[dict[str, Any]] = data.get("matches", [])
    if matches:
        named = [_match(match) for match in matches]
        then = f"{then}: {', '.join(named)}"
    return Failure(what, then, status, {"code": code, **data})


def _about(advice: str, session: str | None) -> str:
    """Return an advice for a session; without one it names `sessiond list`, which shows some."""
    if session:
        return advice.format(session=quote(session))
    return _SESSION_COMMAND.sub("`sessiond list`", advice)


def _next(kind: str, message: str, data: Mapping[str, Any]) -> str:
    """Return the next step by the error and by the command that met it."""
    if kind == "storage_error" and not data.get("retryable"):
        errno = data.get("errno", "")
        # A missing folder can be made for a new file only.
        is_read = errno == "ENOENT" and not message.startswith("could not create")
        return _CHECK_PATH if is_read else _NEXT_BY_ERRNO.get(errno, _CHECK_PATH)
    if kind == "session_corrupt" and data.get("repairable") is False:
        return _NOT_REPAIRABLE
    running = running_command()
    command = "call" if running is None else running[0]
    then = _NEXT_BY_COMMAND.get((command, kind))
    if then is None and kind == "invalid_params":
        then = f"see `sessiond {command} --help`"
    if then is None:
        then = _NEXT.get(kind, "see `sessiond schema` for what the errors mean")
    return _NEXT_BY_PURPOSE.get(data.get("purpose", ""), then)


def _match(match: Mapping[str, Any]) -> str:
    """Return the text that names a matching session or entry."""
    if "entry_id" in match:
        return f"{match['short']} {match['label'] or ''}".strip()
    return f"{match['session_id']} {match.get('title') or ''}".strip()


def _lost(error: SessiondClientError, session: str | None) -> Failure:
    from sessiond_client import ConnectionLost
    from sessiond_client.errors import Unanswered

    if isinstance(error, Unanswered) and error.outcome_unknown:
        check = CHECKS.get(error.check or "", "check")
        then = f"the daemon may have done it: {_about(check, session)} before you run it again"
        return Failure(error.what, then, facts={"kind": "outcome_unknown"})
    then = "see `sessiond status`, then run it again"
    if isinstance(error, ConnectionLost):
        return Failure(str(error), then, Status.NO_DAEMON, {"kind": "no_daemon"})
    return Failure(str(error), then, facts={"kind": "no_answer"})
