"""The frames of one connection that the kernel has not taken yet.

Law: a request counts as sent from its first byte. Only a request of which no byte
left may be sent again without asking what it does.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from sessiond_client.limits import SEND_FRAMES_MAX

__all__ = ["Outgoing"]


class Outgoing:
    """A queue of frames, each under the id of its call (None if no caller waits for an answer)."""

    def __init__(self) -> None:
        self._frames: deque[tuple[memoryview, int | None]] = deque()
        self._is_begun = False

    def __bool__(self) -> bool:
        return bool(self._frames)

    def put(self, frame: bytes, call_id: int | None = None) -> None:
        """Queue a frame behind the queued ones."""
        self._frames.append((memoryview(frame), call_id))

    def buffers(self) -> list[memoryview]:
        """Return the bytes to hand to the kernel next, oldest first."""
        return [frame for frame, _ in islice(self._frames, SEND_FRAMES_MAX)]

    def taken(self, count: int) -> list[int]:
        """Forgets `count` bytes that the kernel took; the calls whose first byte was among them."""
        sent: list[int] = []
        while count:
            frame, call_id = self._frames.popleft()
            if not self._is_begun and call_id is not None:
                sent.append(call_id)
            if count < len(frame):
                self._frames.appendleft((frame[count:], call_id))
                self._is_begun = True
                return sent
            count -= len(frame)
            self._is_begun = False
        return sent

    def discard(self, call_id: int) -> None:
        """Take back the frame of a call of which no byte was sent."""
        self._frames = deque(item for item in self._frames if item[1] != call_id)

    def clear(self) -> None:
        """Forgets everything: the connection it was for is gone."""
        self._frames.clear()
        self._is_begun = False
