"""The events of inotify, as the kernel spells them.

inotify(7): each event is four integers (watch, mask, cookie, length of the name) and the name, padded
with zero bytes. Several events come in one read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO = 0x2, 0x4, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, ONLYDIR = 0x2000, 0x4000, 0x8000, 0x1000000
_EVENT: Final = struct.Struct("iIII")


def events_in(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield watch, mask and name of each event; the name is b"" for the watched thing itself."""
    at = 0
    while at < len(data):
        number, mask, _cookie, name_bytes = _EVENT.unpack_from(data, at)
        begin = at + _EVENT.size
        at = begin + name_bytes
        yield number, mask, data[begin:at].rstrip(b"\0")
