"""Conversation of a command with the daemon: connect, name a session, ask, answer.

Law: with --json the daemon's result is printed byte for byte, so that fields of a newer daemon
are not lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.cli.connect.probe import failure_of
from sessiond.cli.connect.target import find_socket, require_meant_on
from sessiond.cli.connect.versions import tell_another
from sessiond.cli.options import Shared, note_session
from sessiond.cli.ui.command_terms import is_path
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.output import emit_raw, note
from sessiond.cli.ui.progress import Steps
from sessiond.daemon.exit_status import Status
from sessiond.limits import REF_BEGINNING_MIN, REF_END_MIN

if TYPE_CHECKING:
    from sessiond_client import BlockingClient
    from sessiond_client.connect_options import ConnectOptions

NULL: Final = Raw(b"null")
"""Parameter that is JSON null; `None` stands for a parameter that is left out."""
CLIENT_ID: Final = "sessiond-cli"
_SIGN: Final = b'{"_meta":'
_TOLD: Final = "sessiond.stale"


class _Meta(Struct):
    stale_since: str | None = None


class _Signed(Struct):
    meta: _Meta = msgspec.field(name="_meta")


@contextmanager
def connected(shared: Shared) -> Generator[BlockingClient]:
    """Yield a client of the daemon that the flags name; start the daemon if the flags allow it."""
    from sessiond_client import ConnectionLost, ForeignSocket, connect_blocking

    with ExitStack() as ending:
        try:
            path = find_socket(shared.place)
            require_meant_on(shared.place, path)
            client = connect_blocking(path, **restarting(shared))
            ending.enter_context(client)
        except ForeignSocket as error:
            raise failure_of(error) from error
        except ConnectionLost:
            client = connect_blocking(started(shared), **restarting(shared))
            ending.enter_context(client)
        yield client


def restarting(shared: Shared) -> ConnectOptions:
    """Return the options of a client that starts a daemon anew where one ends while a call waits for it.

    The environment names the configuration to that daemon.
    """
    place = shared.place
    options: ConnectOptions = {"client_id": CLIENT_ID, "on_daemon": tell_another}
    if shared.may_start:
        options["restart"] = True
    if place.profile:
        options["profile"] = place.profile
    if place.home:
        options["home"] = Path(place.home).expanduser().absolute()
    if place.config:
        os.environ["SESSIOND_CONFIG"] = os.fspath(Path(place.config).expanduser().absolute())
    return options


def started(shared: Shared) -> Path:
    """Start a daemon that did not answer and return its socket. Raise Failure."""
    from sessiond.cli.connect.autostart import join

    if not shared.may_start:
        what = f"no daemon listens on {find_socket(shared.place)}"
        raise Failure(what, "start it with `sessiond start`", Status.NO_DAEMON)
    return join(shared.place).socket


def ask(client: BlockingClient, method: str, /, **params: Any) -> bytes:
    """Return the result as received bytes; parameters that are None are left out.

    The time limit counts from the daemon's last report, as while it opens a large file.
    """
    steps = Steps(method.partition("/")[2])
    try:
        result = client.call_raw(method, **_given(params), on_progress=steps.report)
    finally:
        steps.end()
    _tell_if_stale(result)
    return result


def ask_long(client: BlockingClient, method: str, /, **params: Any) -> bytes:
    """Call a method without a time limit, and show its progress; return the result's bytes."""
    steps = Steps(method.partition("/")[2])
    try:
        result = client.call_raw(method, **_given(params), timeout=None, on_progress=steps.report)
    finally:
        steps.end()
    _tell_if_stale(result)
    return result


def _tell_if_stale(result: bytes) -> None:
    """Say once that the daemon's database is away, if a result may be old for that."""
    # The daemon puts the sign first, so that a large result need not be read for it.
    if not result.startswith(_SIGN):
        return
    since = typed.decode(result, _Signed).meta.stale_since
    known = click.get_current_context().meta
    if since is not None and known.setdefault(_TOLD, since) is since:
        note(f"the database has not answered since {since}: what is shown may be old")


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


class Members(dict[str, Any]):
    """Members of an object in an answer; a member that an older daemon does not send is None."""

    def __missing__(self, _: str) -> None:
        return None


def read(result: bytes | Raw) -> Any:
    """Return an answer, or a part of it, as a command reads it."""
    import json

    return json.loads(bytes(result), object_hook=Members)


def answer(shared: Shared, result: bytes, text: Callable[[Any], None]) -> None:
    """Print a result: its bytes for programs, by `text` for people."""
    if shared.as_json:
        emit_raw(result)
    else:
        text(read(result))


UNREAD: Final = frozenset({"session_not_found", "session_corrupt"})
"""Kinds of errors of `find` behind which a whole id may still name a session, which `find` cannot read."""


def find(client: BlockingClient, ref: str) -> dict[str, Any]:
    """Return the session that a user's text names; a path is opened in place."""
    note_session(ref)
    if is_path(ref):
        path = Path(ref).expanduser().absolute()
        result = ask(client, "session/open", path=str(path))
    else:
        result = ask(client, "session/resolve", ref=ref)
    session: dict[str, Any] = read(result)["session"]
    return session


def session_id(client: BlockingClient, ref: str) -> str:
    """Return the id of the session that a user's text names."""
    found: str = find(client, ref)["id"]
    return found


def find_whole(client: BlockingClient, ref: str) -> dict[str, Any]:
    """Return the session that an id, a part of an id, a whole title or a path names.

    For commands that destroy or hide: there, a part of a title names no session. Raise Failure.
    """
    session = find(client, ref)
    title = session["title"] or ""
    is_end = len(ref) >= REF_END_MIN and session["id"].endswith(ref)
    is_beginning = len(ref) >= REF_BEGINNING_MIN and session["id"].startswith(ref)
    if is_path(ref) or is_end or is_beginning or title.casefold() == ref.casefold():
        return session
    what = f'"{ref}" is only a part of the title "{title}"'
    then = f"give the whole title, or the id {session['id']}"
    match = {name: session[name] for name in ("cwd", "title", "updated_at")}
    matches = [{"session_id": session["id"], **match}]
    facts = {"kind": "session_not_found", "ref": ref, "matches": matches}
    raise Failure(what, then, Status.NOT_FOUND, facts)


def whole_session_id(client: BlockingClient, ref: str) -> str:
    """Return the id of the session that `find_whole` finds. Raise Failure."""
    found: str = find_whole(client, ref)["id"]
    return found
