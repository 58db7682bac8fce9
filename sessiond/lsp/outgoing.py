"""Output of the server: written by a thread, so that an editor that reads slowly blocks no one.

Law: messages leave in the order of their coming. When an editor lets too much wait, the writer of the
next message waits, which is the event loop: an editor that does not read needs no answers.
"""

from __future__ import annotations

from threading import Condition, Thread
from typing import BinaryIO

from sessiond.limits import LSP_WAITING_BYTES_MAX

_CLOSE_SECONDS = 2.0


class Outgoing:
    """The stream to the editor as pygls writes it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._changed = Condition()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._is_closed = False
        self._error: OSError | None = None
        # A daemon thread, since an editor that never reads would keep it, and so the process.
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Take a message. Raises the OSError of a message before it."""
        with self._changed:
            self._changed.wait_for(self.has_room)
            if self._error is not None:
                raise self._error
            self._waiting.append(data)
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def flush(self) -> None:
        """Do nothing: the thread flushes each message."""

    def close(self) -> None:
        """Write what waits, for a few seconds at most."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    def has_room(self) -> bool:
        """Return whether a message can be taken without a wait."""
        return self._error is not None or self._waiting_bytes < LSP_WAITING_BYTES_MAX

    def _run(self) -> None:
        try:
            while (data := self._taken()) is not None:
                self._stream.write(data)
                self._stream.flush()
                with self._changed:
                    self._waiting_bytes -= len(data)
                    self._changed.notify_all()
        except OSError as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _taken(self) -> bytes | None:
        """Return all that waits; None after the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            data, self._waiting = b"".join(self._waiting), []
            return data or None
