"""Model of a power cut: bytes and names on a disk, each with its durability.

Law: only a sync makes a change durable. Every reader sees a write at once; the write is on the
platter when its file is synced. A name is durable when its folder is synced. A crash keeps any
number of the bytes and names that were still under way, in the order in which they were made.

A sync that fails does what ext4 and xfs do: the kernel marks the pages clean, so no later sync
stores them, on any descriptor. Readers see the bytes until the page cache drops the pages
(`evict`). The size of a file is metadata: a failed sync does not lose a cut.
"""

from __future__ import annotations

import threading
from itertools import accumulate
from pathlib import Path

from msgspec import Struct

__all__ = ["Inode", "NameChange", "Names"]


class _Change(Struct, frozen=True):
    """Bytes put at an offset, or (data None) the file cut at that offset."""

    offset: int
    data: bytes | None


class Inode:
    """The bytes of one file: as readers see them, and as they are on the platter."""

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.seen = bytearray(content)
        self.mtime = self.ctime = 0
        self._durable = bytearray(content)
        self._under_way: list[_Change] = []

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset; a gap between the end and `offset` becomes zeros."""
        self._change(_Change(offset, data))

    def truncate(self, size: int) -> None:
        """Cut the file, or fill it up with zeros."""
        self._change(_Change(size, None))

    def _change(self, change: _Change) -> None:
        _apply(self.seen, change)
        self._under_way.append(change)

    def sync(self) -> None:
        """Bring all changes to the platter."""
        for change in self._under_way:
            _apply(self._durable, change)
        self._under_way.clear()

    def fail_to_sync(self, keep: int) -> None:
        """Lose all bytes under way but `keep`.

        Readers still see them, and no later sync stores them.
        """
        reached = accumulate(map(_cost, self._under_way))
        cuts = [
            change
            for change, cost in zip(self._under_way, reached, strict=True)
            if cost > keep and change.data is None
        ]
        self._durable = self._surviving(keep, 0)
        self._under_way = cuts

    def evict(self) -> None:
        """Drop the clean pages from the cache.

        Readers see the platter, and zeros for lost bytes.
        """
        size = len(self.seen)
        found = bytearray(self._durable)
        for change in self._under_way:
            _apply(found, change)
        self.seen = found[:size] + bytes(max(0, size - len(found)))

    def copy(self) -> Inode:
        """Return the file with its page cache, for a machine on which only a process ends."""
        twin = Inode(self.number)
        twin.seen, twin.mtime, twin.ctime = bytearray(self.seen), self.mtime, self.ctime
        twin._durable, twin._under_way = bytearray(self._durable), list(self._under_way)
        return twin

    def after_crash(self, keep: int, zeros: int) -> Inode:
        """Return the file with `keep` of the bytes under way, then at most `zeros` zeros.

        Some file systems leave zeros where a file grew but its bytes were lost.
        """
        left = Inode(self.number, bytes(self._surviving(keep, zeros)))
        left.mtime, left.ctime = self.mtime, self.ctime
        return left

    def _surviving(self, keep: int, zeros: int) -> bytearray:
        left = bytearray(self._durable)
        for change in self._under_way:
            cost = _cost(change)
            if cost > keep:
                if change.data is not None:
                    room = max(0, change.offset + cost - len(left))
                    if keep:
                        _apply(left, _Change(change.offset, change.data[:keep]))
                    left += bytes(min(zeros, max(0, room - keep)))
                break
            _apply(left, change)
            keep -= cost
        return left


def _cost(change: _Change) -> int:
    """Return the bytes of a change; a cut counts as one, so that a crash may lose it too."""
    return 1 if change.data is None else len(change.data)


def _apply(content: bytearray, change: _Change) -> None:
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    if change.data is None:
        del content[change.offset :]
    else:
        content[change.offset : change.offset + len(change.data)] = change.data


class NameChange(Struct, frozen=True):
    """A name change: `path` gets `target` (a file, or True for a folder; None removes the name).

    A rename is one change: `gone` is the name that goes away with it.
    """

    path: Path
    target: Inode | bool | None
    gone: Path | None = None


class Names:
    """The names on a disk: as programs see them, and as they are on the platter.

    Any number of threads may change and read them.
    """

    def __init__(self, durable: dict[Path, Inode | bool]) -> None:
        self._mutex = threading.Lock()
        self.seen = dict(durable)
        """Visible names; every change replaces the dict, so an iteration sees one moment."""
        self._durable = dict(durable)
        self._under_way: list[NameChange] = []

    def change(self, change: NameChange) -> None:
        """Make, replace or remove a name."""
        with self._mutex:
            seen = dict(self.seen)
            _rename(seen, change)
            self.seen = seen
            self._under_way.append(change)

    def leave(self, path: Path, target: Inode) -> bool:
        """Give a file a free name, durably; return False if the name is taken."""
        with self._mutex:
            if path in self.seen or self.seen.get(path.parent) is not True:
                return False
            self.seen = {**self.seen, path: target}
            self._durable[path] = target
            return True

    def sync(self, folder: Path) -> None:
        """Bring the names in a folder to the platter.

        Earlier changes that a name in the folder depends on, such as a rename, reach the platter
        too.
        """
        with self._mutex:
            self._sync(folder)

    def _sync(self, folder: Path) -> None:
        kept: list[NameChange] = []
        synced: list[NameChange] = []
        touched: set[Path | None] = set()
        for change in reversed(self._under_way):
            if change.path.parent == folder or change.path in touched or change.gone in touched:
                touched |= {change.path, change.gone} - {None}
                synced.append(change)
            else:
                kept.append(change)
        for change in reversed(synced):
            _rename(self._durable, change)
        self._under_way = kept[::-1]

    def copy(self) -> Names:
        """Return the names, each file with its page cache."""
        changed = [change.target for change in self._under_way]
        known = [*self.seen.values(), *self._durable.values(), *changed]
        twins = {one.number: one.copy() for one in known if isinstance(one, Inode)}

        def twin(names: dict[Path, Inode | bool]) -> dict[Path, Inode | bool]:
            return {
                path: twins[target.number] if isinstance(target, Inode) else target
                for path, target in names.items()
            }

        copied = Names(twin(self._durable))
        copied.seen = twin(self.seen)
        copied._under_way = [
            NameChange(change.path, twins[change.target.number], change.gone)
            if isinstance(change.target, Inode)
            else change
            for change in self._under_way
        ]
        return copied

    def after_crash(self, keep: int) -> dict[Path, Inode | bool]:
        """Return the names with the first `keep` changes that were under way.

        Names in lost folders are left out.
        """
        left = dict(self._durable)
        for change in self._under_way[:keep]:
            _rename(left, change)
        return {path: target for path, target in left.items() if _reachable(left, path)}


def _rename(names: dict[Path, Inode | bool], change: NameChange) -> None:
    if change.gone is not None:
        names.pop(change.gone, None)
    if change.target is None:
        names.pop(change.path, None)
    else:
        names[change.path] = change.target


def _reachable(names: dict[Path, Inode | bool], path: Path) -> bool:
    return all(names.get(parent) is True for parent in path.parents)
