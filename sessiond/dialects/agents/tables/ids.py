"""Numbers for ids, as small as they can be: a session has as many ids as lines.

Law: an id counts by 16 bytes: those of a UUID in its usual spelling, else those of a digest. So two
ids are one here only if their digests are, which no file has.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any, Final

from sessiond.model.digests import short_digest

_KEY_BYTES: Final = 16
_UUID_CHARS: Final = 36
_SLOTS: Final = 64
_RECENT_MAX: Final = 512


class IdTable:
    """Ids with the numbers 1, 2, 3 … in the order in which they were added, some 25 bytes for each.

    An id that is no UUID costs 12 bytes more, and its own."""

    def __init__(self, *, keeps_names: bool = True) -> None:
        """Make an empty table. Unless `keeps_names`, `name_of` knows no ids but UUIDs."""
        self._count = 0
        self._keys = bytearray(_KEY_BYTES)
        # The last number of each key, where the hash of the key says or behind; 0 is free.
        self._slots = array("i", bytes(_SLOTS * array("i").itemsize))
        self._keeps_names = keeps_names
        # The numbers whose key does not tell the id, in order, and the ids behind each other with their ends.
        self._named, self._ends, self._names = array("i"), array("q"), bytearray()
        # Lines name the lines before them, mostly the last one; and what `name_of` says of these.
        self._recent: dict[str, int] = {}
        self._recent_names: dict[int, str] = {}
        # The id that was asked for last, which the next line mostly has. The key, and its slot.
        self._asked: str | None = None
        self._asked_key = b""
        self._asked_slot = 0
        self._is_uuid = False

    def __getstate__(self) -> dict[str, Any]:
        """Return the table without its slots: another process hashes keys otherwise."""
        none: dict[str, Any] = {"_recent": {}, "_recent_names": {}, "_asked": None}
        return {**vars(self), "_slots": len(self._slots), **none}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of another table."""
        vars(self).update(state)
        self._fill(state["_slots"])

    def __contains__(self, name: object) -> bool:
        """Return whether an id was added."""
        return isinstance(name, str) and self.last(name) > 0

    def last(self, name: str) -> int:
        """Return the last number of an id; 0 if the id was never added."""
        found = self._recent.get(name)
        if found is not None:
            return found
        if name != self._asked:
            self._ask(name)
        return self._slots[self._asked_slot]

    def add(self, name: str, told: str | None = None) -> int:
        """Give an id the next number, and return the number. `told` is what `name_of` says instead."""
        if name != self._asked:
            self._ask(name)
        self._count = number = self._count + 1
        self._keys += self._asked_key
        if (told is not None and told != name) or (self._keeps_names and not self._is_uuid):
            self._named.append(number)
            self._names += (told or name).encode(errors="surrogatepass")
            self._ends.append(len(self._names))
        if len(self._recent) >= _RECENT_MAX:
            self._recent.clear()
            self._recent_names.clear()
        self._recent[name] = number
        if told is not None or self._keeps_names or self._is_uuid:
            self._recent_names[number] = told or name
        self._slots[self._asked_slot] = number
        self._asked = None
        if 2 * number > len(self._slots):
            self._grow()
        return number

    def name_of(self, number: int) -> str:
        """Return the id that has a number; "" for 0."""
        if not number:
            return ""
        recent = self._recent_names.get(number)
        if recent is not None:
            return recent
        at = bisect_left(self._named, number)
        if at < len(self._named) and self._named[at] == number:
            spelled = self._names[self._ends[at - 1] if at else 0 : self._ends[at]]
            return spelled.decode(errors="surrogatepass")
        start = number * _KEY_BYTES
        return _spelled(bytes(self._keys[start : start + _KEY_BYTES]))

    def _ask(self, name: str) -> None:
        self._asked_key, self._is_uuid = _key(name)
        self._asked_slot = self._slot(self._asked_key)
        self._asked = name

    def _slot(self, key: bytes) -> int:
        """Return the slot of a key, or the free slot where the key belongs."""
        slots, keys = self._slots, self._keys
        last = len(slots) - 1
        at = hash(key) & last
        while number := slots[at]:
            if keys.startswith(key, number * _KEY_BYTES):
                break
            at = (at + 1) & last
        return at

    def _grow(self) -> None:
        self._fill(2 * len(self._slots))

    def _fill(self, slots: int) -> None:
        """Give every key its place among so many slots."""
        self._slots = array("i", bytes(slots * array("i").itemsize))
        keys = bytes(self._keys)
        for number in range(1, self._count + 1):
            start = number * _KEY_BYTES
            self._slots[self._slot(keys[start : start + _KEY_BYTES])] = number


def _key(name: str) -> tuple[bytes, bool]:
    """Return the key of an id, and whether the key tells the id."""
    if len(name) == _UUID_CHARS:
        digits = name.replace("-", "")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        # With 32 digits it has four other characters, so the usual spelling if these are where that has them.
        is_usual = name[8] == name[13] == name[18] == name[23] == "-"
        if len(key) == _KEY_BYTES and is_usual and key.hex() == digits:
            return key, True
    data = name.encode(errors="surrogatepass")
    return short_digest(data), False


def _spelled(key: bytes) -> str:
    digits = key.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
