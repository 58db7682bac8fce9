"""What the methods that make a session of another share: reading the source, making the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import SessionExists
from sessiond.methods.common import Call, Client, ask
from sessiond.service.files.rehearsal import rehearse
from sessiond.service.host import Host
from sessiond.service.session_info import SessionInfo

__all__ = ["CopyResult", "copy_from", "make_copy"]


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
