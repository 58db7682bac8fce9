"""Admission of connections: processes of this user only, and a bounded number for each.

Law: one process, however it leaks connections, leaves room for the rest, and all connections
together leave descriptors for the work on them. A client that is refused is told so in one line;
the end of its connection means that nothing of what it had sent was done.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from typing import Final

import anyio
from msgspec import Struct

from sessiond.errors import Overloaded
from sessiond.limits import DEFAULT_BOUNDS, REFUSALS_LOGGED_SECONDS, RETRY_AFTER_MS, Bounds
from sessiond.rpc.framing import frame_ndjson
from sessiond.rpc.messages import error_body
from sessiond.service.byte_budget import ByteBudget

_log = logging.getLogger(__name__)
_NEVER: Final = float("-inf")


class Peer(Struct, frozen=True):
    """The process at the other end of a socket.

    The pid is 0 where the system does not report one.
    """

    uid: int
    pid: int

    def __str__(self) -> str:
        return f"pid {self.pid}" if self.pid else "unix socket"


class Admission:
    """The open connections, counted by process."""

    def __init__(
        self, budget: ByteBudget, bounds: Callable[[], Bounds] = lambda: DEFAULT_BOUNDS
    ) -> None:
        self._budget = budget
        self._bounds = bounds
        self._open: Counter[int] = Counter()
        self._told: dict[str, tuple[float, int]] = {}
        """Time of the last line in the log with a text, and how many came since, by text."""

    def admit(self, peer: Peer) -> bytes | None:
        """Count one more connection and return None, or return the refusal to send before closing.

        The refusal is empty for a process of another user.
        """
        if peer.uid != os.getuid():
            self.tell("refused another user's connection", uid=peer.uid, pid=peer.pid)
            return b""
        bounds = self._bounds()
        limit = bounds.connections_at_most
        if self._open.total() >= limit:
            return self._refuse(
                peer, "the daemon has as many open connections as it may have", limit
            )
        share = bounds.connections_of_one_process
        if peer.pid and self._open[peer.pid] >= share:
            return self._refuse(peer, "this process has as many connections as it may", share)
        self._open[peer.pid] += 1
        return None

    def leave(self, peer: Peer) -> None:
        """Stop counting a connection that ended."""
        self._open[peer.pid] -= 1
        if not self._open[peer.pid]:
            del self._open[peer.pid]

    def tell(self, text: str, **facts: int | None) -> None:
        """Log that a connection came to nothing, once in a while: a program may try very often.

        The line says how many were left out before it.
        """
        now = anyio.current_time()
        logged_at, left_out = self._told.get(text, (_NEVER, 0))
        if now - logged_at < REFUSALS_LOGGED_SECONDS:
            self._told[text] = logged_at, left_out + 1
            return
        self._told[text] = now, 0
        _log.warning(text, extra={**facts, "left_out": left_out})

    def _refuse(self, peer: Peer, reason: str, limit: int) -> bytes:
        self._budget.connections_refused += 1
        refused = self._budget.connections_refused
        self.tell("refused one connection too many", limit=limit, pid=peer.pid, refused=refused)
        error = Overloaded(
            f"{reason}; close some, or try again later",
            limit=limit,
            retry_after_ms=RETRY_AFTER_MS,
            closing=True,
        )
        return frame_ndjson(error_body(None, error))
