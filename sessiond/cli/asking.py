"""A command's conversation with the daemon: connect, name a session, ask, answer.

Law: with --json the daemon's result is printed as it came, so that nothing a daemon of
another version says is lost here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw

from sessiond.cli.daemons import find_socket
from sessiond.cli.failures import Failure, Status
from sessiond.cli.options import Shared
from sessiond.cli.output import emit_raw

if TYPE_CHECKING:
    from sessiond_client import BlockingClient

__all__ = ["NULL", "answer", "ask", "connected", "find", "is_path", "session_id"]

NULL: Final = Raw(b"null")
"""A parameter that is null, where `None` would be one that was left out."""
_CLIENT_ID: Final = "sessiond-cli"


@contextmanager
def connected(shared: Shared) -> Generator[BlockingClient]:
    """A client of the daemon that the flags mean."""
    from sessiond_client import ConnectionLost, connect_blocking

    path = find_socket(shared.place)
    with ExitStack() as ending:
        try:
            client = ending.enter_context(connect_blocking(path, client_id=_CLIENT_ID))
        except ConnectionLost as lost:
            if not shared.may_start:
                what = f"nobody listens on {path}"
                raise Failure(what, "start it with `sessiond start`", Status.NO_DAEMON) from lost
            from sessiond.cli.joining import join

            path = join(shared.place).socket
            client = ending.enter_context(connect_blocking(path, client_id=_CLIENT_ID))
        yield client


def ask(client: BlockingClient, method: str, /, **params: Any) -> bytes:
    """The result as the bytes that came; parameters that are None are left out."""
    return client.call_raw(method, **{k: v for k, v in params.items() if v is not None})


def answer(shared: Shared, result: bytes, text: Callable[[Any], None]) -> None:
    """Print a result: as it is for programs, by `text` for people."""
    if shared.as_json:
        emit_raw(result)
    else:
        text(msgspec.json.decode(result))


def find(client: BlockingClient, ref: str) -> dict[str, Any]:
    """The session behind what a user wrote for it, opened where it is if it was a path."""
    if is_path(ref):
        path = Path(ref).expanduser().absolute()
        result = ask(client, "session/open", path=str(path))
    else:
        result = _resolve(client, ref)
    session: dict[str, Any] = msgspec.json.decode(result)["session"]
    return session


def session_id(client: BlockingClient, ref: str) -> str:
    """The id of the same."""
    found: str = find(client, ref)["id"]
    return found


def is_path(ref: str) -> bool:
    """Whether what a user wrote for a session is the path of its file."""
    return "/" in ref or ref.endswith(".jsonl")


def _resolve(client: BlockingClient, ref: str) -> bytes:
    from sessiond_client import RpcError

    try:
        return ask(client, "session/resolve", ref=ref)
    except RpcError as error:
        if error.kind != "method_not_found":
            raise
        return ask(client, "session/get", session_id=ref)
