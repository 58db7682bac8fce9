"""Outbox of one connection: bounded, and sent straight from the step that queued.

Rule 1: `put` and `offer` only queue; `flush` and `deliver` send as much as the socket takes, once.

Rule 2: an answer is never refused; an event is, when it would pass the limit.

Rule 3: a task exists only while the socket is full, and there is at most one.

Rule 4: a connection whose socket takes no byte for a while is given up if an answer waits, and left
alone if only events do.

Rule 5: bytes left over by a full socket count in the byte budget of all connections.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable

import anyio
from anyio.lowlevel import checkpoint
from msgspec import Struct

from sessiond.limits import OUTBOX_BYTES_MAX, STUCK_SOCKET_SECONDS
from sessiond.service.byte_budget import ByteBudget
from sessiond.transports.base import Port


class OutboxStatistics(Struct, frozen=True):
    """Figures that show how busy an outbox is."""

    pending_bytes: int
    answer_bytes: int
    sent_bytes: int
    stalls: int
    """Number of times that the socket was full."""


class Outbox:
    """The sending end of one connection.

    `moved` is called when a stalled socket took bytes; `broken`, with the reason, when nothing can
    be sent any more.
    """

    def __init__(
        self,
        port: Port,
        start_task: Callable[[Callable[[], Awaitable[None]]], None],
        budget: ByteBudget,
        *,
        moved: Callable[[], None],
        broken: Callable[[str], None],
    ) -> None:
        self._port = port
        self._start_task = start_task
        self._budget = budget
        self._counted_bytes = 0
        self._moved = moved
        self._broken = broken
        self._frames: list[bytes] = []
        # Indices of the events in `_frames`; answers, the common case, cost no entry.
        self._event_places: list[int] = []
        self.answer_bytes = 0
        self._event_bytes = 0
        # Bytes left over by a full socket, and their parts as (size, is an event).
        self._rest = memoryview(b"")
        self._rest_parts: deque[tuple[int, bool]] = deque()
        self._stuck = anyio.CancelScope()
        self._draining = False
        self._closed = False
        self._room: anyio.Event | None = None
        self._room_below = OUTBOX_BYTES_MAX // 2
        self._sent_bytes = 0
        self._stalls = 0

    @property
    def pending_bytes(self) -> int:
        """Number of queued bytes, of answers and events."""
        return self.answer_bytes + self._event_bytes

    # -- queueing ------------------------------------------------------------------

    def put(self, frame: bytes) -> None:
        """Queue an answer."""
        if self._draining and self.answer_bytes == 0:
            # From now on an answer waits for this socket.
            self._stuck.deadline = anyio.current_time() + STUCK_SOCKET_SECONDS
        self._frames.append(frame)
        self.answer_bytes += len(frame)
        if self._draining:
            self._count_pending()

    def offer(self, frames: bytes) -> bool:
        """Queue events; return False when they would pass a limit and other frames wait already."""
        size = len(frames)
        pending = self.answer_bytes + self._event_bytes
        budget = self._budget
        # `is_full_for_events`, word by word: this runs for every event and subscriber.
        if pending and (
            pending + size > OUTBOX_BYTES_MAX or budget.held_bytes * 2 > budget.bytes_max
        ):
            # The outbox may be full only because nothing tried to send its frames yet.
            self.flush()
            if self.pending_bytes:
                # If the whole daemon is full, this connection can only wait for its own outbox
                # to be empty.
                room = 0 if self._budget.is_full_for_events else OUTBOX_BYTES_MAX - size
                self._room_below = min(self._room_below, max(0, room))
                return False
        if self._closed:
            return True
        self._event_places.append(len(self._frames))
        self._frames.append(frames)
        self._event_bytes += size
        if self._draining:
            self._count_pending()
        return True

    def deliver(self, frames: bytes) -> bool:
        """Queue events as `offer` does, and send what is queued."""
        if self._frames or self._draining or self._closed:
            if not self.offer(frames):
                return False
            self.flush()
            return True
        # Nothing is queued: most events of a crowd of subscribers come here.
        sent = self._send(frames)
        if sent < len(frames) and not self._closed:
            self._frames.append(frames)
            self._event_places.append(0)
            self._event_bytes = len(frames)
            self._stall(frames, sent)
        return True

    # -- sending -------------------------------------------------------------------

    def flush(self) -> None:
        """Send the queued frames, unless a task waits for a full socket anyway."""
        if self._draining or not self._frames:
            return
        if self._closed:
            self._drop_all()
            return
        frames = self._frames
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        sent = self._send(data)
        if sent == len(data):
            frames.clear()
            self._event_places.clear()
            self.answer_bytes = self._event_bytes = 0
        elif not self._closed:
            self._stall(data, sent)

    def _stall(self, data: bytes, sent: int) -> None:
        """Leave the rest of the queued frames, joined as `data`, to a task."""
        self._load(data)
        self._count(sent)
        self._stalls += 1
        self._draining = True
        self._count_pending()
        self._start_task(self._drain)

    def _send(self, data: bytes | memoryview) -> int:
        try:
            sent = self._port.send(data)
        except OSError as error:
            self.close()
            self._broken(f"the other end is gone: {error.strerror}")
            return 0
        self._sent_bytes += sent
        return sent

    def _count_pending(self) -> None:
        pending = self.answer_bytes + self._event_bytes
        self._budget.held_bytes += pending - self._counted_bytes
        self._counted_bytes = pending

    def _load(self, data: bytes) -> None:
        """Take the queued frames, joined as `data`, to send them piece by piece."""
        events = set(self._event_places)
        self._rest = memoryview(data)
        self._rest_parts.extend(
            (len(frame), place in events) for place, frame in enumerate(self._frames)
        )
        self._frames.clear()
        self._event_places.clear()

    def _count(self, sent: int) -> None:
        """Subtract `sent` bytes from the rest and from the kind of frame they belong to."""
        self._rest = self._rest[sent:]
        parts = self._rest_parts
        while sent:
            size, is_event = parts.popleft()
            taken = min(size, sent)
            sent -= taken
            if taken < size:
                parts.appendleft((size - taken, is_event))
            if is_event:
                self._event_bytes -= taken
            else:
                self.answer_bytes -= taken

    async def _drain(self) -> None:
        """Wait for the socket and send the rest, until nothing is left."""
        while not self._closed and self.pending_bytes:
            if not self._rest:
                self._load(b"".join(self._frames))
            with anyio.CancelScope() as self._stuck:
                if self.answer_bytes:
                    self._stuck.deadline = anyio.current_time() + STUCK_SOCKET_SECONDS
                else:
                    self._stuck.deadline = math.inf
                await self._port.wait_writable()
            if self._stuck.cancelled_caught:
                self.close()
                self._broken("the client took no byte while an answer waited")
                return
            self._count(self._send(self._rest))
            self._count_pending()
            self._tell()
        self._draining = False
        self._tell()

    def _tell(self) -> None:
        if self._room is not None and self.pending_bytes <= self._room_below:
            self._room.set()
            self._room = None
            self._room_below = OUTBOX_BYTES_MAX // 2
        self._moved()

    async def wait_room(self) -> None:
        """Wait until there is room for the refused events, or else for half an outbox of events."""
        self.flush()
        if self._closed or self.pending_bytes <= self._room_below:
            await checkpoint()
            return
        if self._room is None:
            self._room = anyio.Event()
        await self._room.wait()

    # -- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Drop all frames, and every frame queued from now on."""
        self._closed = True
        self._drop_all()
        if self._room is not None:
            self._room.set()
            self._room = None

    def _drop_all(self) -> None:
        self._frames.clear()
        self._event_places.clear()
        self._rest_parts.clear()
        self._rest = memoryview(b"")
        self.answer_bytes = self._event_bytes = 0
        self._count_pending()

    def statistics(self) -> OutboxStatistics:
        """Return how busy the outbox is."""
        return OutboxStatistics(
            pending_bytes=self.pending_bytes,
            answer_bytes=self.answer_bytes,
            sent_bytes=self._sent_bytes,
            stalls=self._stalls,
        )
