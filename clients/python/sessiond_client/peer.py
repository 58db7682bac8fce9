"""The process that listens on a socket: nothing is sent before its user is known to be a good one.

Law: standard library only and quick to import, since `sessiond stdio` waits for it.

    the user of this process          good
    root                              good: a system manager opened the socket
    any other user                    refused, unless `peer_uid` names that user
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sessiond_client.errors import ConnectionLost
from sessiond_client.place import address

__all__ = ["ForeignSocket", "require_own_peer"]

_ROOT: Final = 0
_IS_LINUX: Final = sys.platform == "linux"
# struct ucred of Linux: pid, uid, gid.
_UCRED: Final = struct.Struct("iII")
# The call of macOS and FreeBSD: struct xucred begins with a version and the uid.
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_XUCRED_START: Final = struct.Struct("2I")


class ForeignSocket(ConnectionLost):
    """Refusal of this client to send to the socket of another user; `uid` is that user."""

    def __init__(self, path: str | os.PathLike[str], uid: int) -> None:
        what = f"{os.fspath(path)} is the socket of another user (uid {uid})"
        then = (
            f"name a socket of your own, or permit that user with peer_uid={uid} if the user is to read "
            "your sessions"
        )
        super().__init__(f"{what}, so nothing was sent; {then}", outcome_unknown=False)
        self.uid, self.what = uid, what


@contextmanager
def require_own_peer(
    sock: socket.socket, path: str | os.PathLike[str], peer_uid: int | None = None
) -> Generator[str]:
    """Yield the address at which to connect a socket; require a good user at the other end.

    Raises OSError, and ForeignSocket for a bad user.
    """
    good = {os.geteuid(), _ROOT, peer_uid}
    try:
        with address(path) as name:
            yield name
    except PermissionError:
        # There is no peer to ask about. The owner of the file is the reason.
        with suppress(OSError):
            owner = Path(path).stat().st_uid
            if owner not in good:
                raise ForeignSocket(path, owner) from None
        raise
    uid = _uid_of_peer(sock)
    if uid not in good:
        raise ForeignSocket(path, uid)


def _uid_of_peer(sock: socket.socket) -> int:
    if _IS_LINUX:
        found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    else:
        found = sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_START.size)
    uid: int = (_UCRED if _IS_LINUX else _XUCRED_START).unpack(found)[1]
    return uid
