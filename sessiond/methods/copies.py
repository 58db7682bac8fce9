"""What the methods that make a session of another share: reading the source, making the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import InvalidParams, SessionExists
from sessiond.methods.common import Call, Client, ask, served
from sessiond.service.copying.source import Means
from sessiond.service.files.rehearsal import rehearse
from sessiond.service.host import Host
from sessiond.service.inbox import LATER
from sessiond.service.session_info import SessionInfo

__all__ = ["CopyResult", "ask_both", "copy_from", "make_copy", "means_of", "require_two"]


class CopyResult(Struct, frozen=True):
    """The new session; of a dry run what it would be, which has no path."""

    session: SessionInfo


def copy_from(
    client: Client,
    call: Call[Client],
    session_id: str,
    look: Callable[[Host], Callable[[], Any]],
) -> Any:
    """Answer with what a job makes of the session as it is now; `look` says which job."""
    return ask(client, call, session_id, lambda host: host.later(call, look(host)))


def means_of(client: Client, call: Call[Client]) -> Means:
    """What making a copy for this request takes."""
    environment = client.service.environment
    return Means(environment.now(), environment.new_entry_id, call.progress)


async def make_copy(
    client: Client,
    session_id: str,
    lines: Callable[[], Iterator[list[bytes]]],
    *,
    dry_run: bool,
) -> SessionInfo:
    """Choose the lines and make the session of them, or say what it would be.

    Raises SessionExists, StorageError and what `lines` raises; then nothing was made.
    """
    service = client.service
    # Where the choice is wrong nothing is begun.
    chunks = await to_thread.run_sync(lines)
    if not dry_run:
        return await service.make(session_id, chunks)
    if service.find(session_id) is not None:
        raise SessionExists("a session of this id exists", session_id=session_id)

    def work() -> SessionInfo:
        service.store.require_free(session_id)
        return rehearse(session_id, chunks, service.environment.new_epoch())

    return await to_thread.run_sync(work)


def require_two(session_id: str, other_session_id: str) -> None:
    """Raises InvalidParams for one and the same."""
    if session_id == other_session_id:
        raise InvalidParams("a session is not merged with itself", path="other_session_id")


def ask_both(
    client: Client,
    call: Call[Client],
    session_id: str,
    other_session_id: str,
    look: Callable[[Host, Host], Any],
) -> Any:
    """Answer from two sessions, each after this connection's own earlier mutations of it.

    What `look` defers is answered in its time.
    """
    service = client.service
    other = service.host(other_session_id)

    def with_other() -> Any:
        host = service.host(session_id)
        answer = host.ask(call, lambda: look(host, other))
        if answer is LATER and host.in_memory:
            client.listener.start(serve)
        return answer

    async def serve() -> None:
        """What a session in memory was asked in another one's turn: no chunk of a connection ends there."""
        client.chunk_done()

    return served(other.ask(call, with_other))
