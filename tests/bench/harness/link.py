"""A connection: control calls that wait for their answer, and the raw socket for the load.

Law: blocking sockets and no thread, so that the server is measured. A control call is made only
while the connection has no open request.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Raw, Struct

from tests.bench.harness.errors import BenchError

__all__ = ["Link", "require_no_error"]

T = TypeVar("T")

TIMEOUT_SECONDS = 60
RECEIVE_BYTES = 256 * 1024


_NULL = Raw(b"null")


class _Error(Struct):
    code: int
    message: str


class _Answer(Struct):
    """An answer; a notification has no id and is passed over."""

    id: int | None = None
    result: Raw = _NULL
    error: _Error | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode


class Link:
    """A connected Unix socket with its receive buffer."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.wait_up_to(TIMEOUT_SECONDS)
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise
        self.buffer = bytearray(RECEIVE_BYTES)
        self._rest = b""
        self._last_id = 1_000_000_000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_up_to(self, seconds: int) -> None:
        """Set how long a read waits for the server."""
        # The kernel's own timeout: Python's would cost a poll a read.
        self._patience = seconds
        limit = struct.pack("ll", seconds, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def ask(self, method: str, params: Mapping[str, Any], result: type[T]) -> T:
        """Call and wait. Raises BenchError for an error as answer."""
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        try:
            self.socket.sendall(msgspec.json.encode(request) + b"\n")
            while True:
                answer = _decode_answer(self._line())
                if answer.id == self._last_id:
                    break
        except BlockingIOError as error:
            raise BenchError(f"{method}: no answer in {self._patience} s") from error
        if answer.error is not None:
            raise BenchError(f"{method}: {answer.error.code} {answer.error.message}")
        return msgspec.json.decode(answer.result, type=result)

    def _line(self) -> bytes:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            got = self.socket.recv_into(self.buffer)
            if not got:
                raise BenchError("the server closed the connection")
            parts.append(bytes(self.buffer[:got]))
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line


def require_no_error(chunk: bytes) -> None:
    """Look at some of the answers that the load only counted. Raises BenchError."""
    for line in chunk.split(b"\n"):
        if line.startswith(b'{"jsonrpc":"2.0","id":') and b'"error":{' in line[:200]:
            error = _decode_answer(line).error if line.endswith(b"}") else None
            raise BenchError(f"an append was answered with an error: {error}")
