"""Unix socket: an accept loop that survives broken connections and a lack of descriptors."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from sessiond.errors import StorageError, as_outage
from sessiond.limits import ADDRESS_LOOK_SECONDS
from sessiond.system import SYSTEM
from sessiond.transports.admission import Admission, Peer
from sessiond.transports.base import Port, SocketPort
from sessiond.transports.listening import CannotListen, Listening

_log = logging.getLogger(__name__)

Serve = Callable[[Port], Awaitable[None]]

# Pause of the accept loop when the process or the system is out of descriptors or memory, and when
# a call failed for another reason, after which the next connection may well be accepted.
EXHAUSTED_SECONDS: Final = 0.5
FAILED_SECONDS: Final = 0.05
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


async def serve_unix(
    listen: Callable[[], Listening],
    serve: Serve,
    admission: Admission,
    *,
    still: Callable[[], bool] = lambda: True,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Accept connections until cancelled; report started once clients can connect.

    Where the socket's file is removed, listen anew if the profile is `still` this daemon's; if not, accept no more.
    `listen` and `still` run in a worker thread. An OSError of `still` proves nothing: `still` is asked again. Raises
    CannotListen at the start.
    """
    listening: Listening | None = await to_thread.run_sync(listen)
    try:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            while listening is not None:
                listener = listening.socket
                async with anyio.create_task_group() as accepting:
                    accepting.start_soon(_accept_loop, listener, serve, tasks, admission)
                    await _until_removed(listening)
                    listening = await _anew(listen, still)
                    accepting.cancel_scope.cancel()
                listener.close()
    finally:
        if listening is not None:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(listening.end)


async def _until_removed(listening: Listening) -> None:
    """Wait until no client can reach a socket any more; for good for one of the service manager's."""
    if listening.identity is None:
        await anyio.sleep_forever()
    while True:
        await anyio.sleep(ADDRESS_LOOK_SECONDS)
        with suppress(StorageError), as_outage():
            if not await to_thread.run_sync(listening.is_there, abandon_on_cancel=True):
                return


async def _anew(listen: Callable[[], Listening], still: Callable[[], bool]) -> Listening | None:
    """Listen where a socket was removed, as soon as that can be done; return None for another's profile."""
    told = False
    while True:
        try:
            with as_outage():
                if not await to_thread.run_sync(still, abandon_on_cancel=True):
                    return None
                found = await to_thread.run_sync(listen)
        except (OSError, CannotListen, StorageError) as error:
            if not told:
                _log.warning("its socket was removed", extra={"reason": str(error)})
            told = True
        else:
            _log.info("listens again: its socket was removed")
            return found
        await anyio.sleep(ADDRESS_LOOK_SECONDS)


async def _accept_loop(
    listener: socket.socket, serve: Serve, tasks: TaskGroup, admission: Admission
) -> None:
    async def serve_one(sock: socket.socket, peer: Peer) -> None:
        try:
            await serve(SocketPort(sock, str(peer)))
        except OSError as error:
            _lose(sock, error, admission)
        finally:
            admission.leave(peer)

    told = False
    while True:
        try:
            await _someone_waits(listener)
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            continue
        except OSError as error:
            if not told:
                _log.warning("cannot accept for now", extra={"errno": error.errno})
            told = True
            rest = EXHAUSTED_SECONDS if error.errno in _EXHAUSTED else FAILED_SECONDS
            await anyio.sleep(rest)
            continue
        told = False
        try:
            peer = Peer(*SYSTEM.peer_of(sock))
        except OSError as error:
            # The connection's user is unknown.
            _lose(sock, error, admission)
            continue
        refusal = admission.admit(peer)
        if refusal is None:
            tasks.start_soon(serve_one, sock, peer)
        else:
            _turn_away(sock, refusal)


async def _someone_waits(listener: socket.socket) -> None:
    """Wait until a client connects, or for a moment where the system does not tell."""
    try:
        await anyio.wait_readable(listener)
    except OSError:
        await anyio.sleep(FAILED_SECONDS)


def _lose(sock: socket.socket, error: OSError, admission: Admission) -> None:
    """Close a connection that a failed system call has ended."""
    admission.tell("connection lost", errno=error.errno)
    with suppress(OSError):
        sock.close()


def _turn_away(sock: socket.socket, last_words: bytes) -> None:
    """Send the refusal if the socket takes it at once, and close the socket."""
    with suppress(OSError), sock:
        sock.settimeout(0)
        sock.send(last_words)
