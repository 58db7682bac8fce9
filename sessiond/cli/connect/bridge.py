"""`sessiond stdio`: this process's standard input and output as a connection to the daemon.

Law: bytes are copied and never parsed, so both framings pass. The end of input closes one half;
answers are copied until the daemon has sent the last one.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Final

_READ_BYTES: Final = 64 * 1024
_STDIN: Final = 0
_STDOUT: Final = 1


def bridge(sock: socket.socket) -> bool:
    """Copy both ways until the daemon closes; return whether the input had ended before that.

    Raises BrokenPipeError if standard output has no reader any more.
    """
    sock.settimeout(None)
    ended = threading.Event()
    # A read of standard input cannot be cancelled: this thread ends with the process.
    threading.Thread(target=_copy_input, args=(sock, ended), daemon=True).start()
    try:
        while data := sock.recv(_READ_BYTES):
            _write_all(data)
    except ConnectionResetError:
        return False
    return ended.is_set()


def _copy_input(sock: socket.socket, ended: threading.Event) -> None:
    # The other direction reports the end if the daemon is gone or the input breaks.
    with suppress(OSError):
        while data := os.read(_STDIN, _READ_BYTES):
            sock.sendall(data)
        ended.set()
    with suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(_STDOUT, rest) :]
