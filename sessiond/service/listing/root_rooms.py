"""The room that the sessions of each root have in the search index.

A root is an agent's whole history, of many gigabytes, and the index has no more of it than
ROOT_TEXT_CHARS_MAX. The profile's own sessions have as much room as they need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from sessiond.errors import StorageError
from sessiond.limits import ROOT_TEXT_CHARS_MAX
from sessiond.service.files.roots import Roots
from sessiond.service.files.store import Store

__all__ = ["IndexedTexts", "Room", "RootRooms", "indexed_texts"]


class Room(Struct):
    """The characters that a root may still add to the index; none once a session did not fit."""

    left: int
    is_full: bool = False

    def fits(self, chars: int) -> bool:
        """Return whether a session of so many characters has room."""
        return chars <= self.left

    def take(self, chars: int) -> None:
        """Take the room of a session of so many characters; the room is full if that is too much."""
        self.is_full = not self.fits(chars)
        self.left -= chars


class Place(Struct, frozen=True):
    """The place of a session's file: whether another agent writes it, and its root with the root's room."""

    is_agents: bool
    root: str | None
    room: Room | None


class RootRooms:
    """The rooms of all roots during one search."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._rooms: dict[str, Room] = {}
        # Thousands of files lie in a few folders, and only the folder counts.
        self._places: dict[str, Place] = {}

    def at(self, path: str) -> Place:
        """Return the place of a file."""
        folder = os.path.dirname(path)  # noqa: PTH120 - a search asks for every session
        place = self._places.get(folder)
        if place is None:
            place = self._places[folder] = self._place(Path(path))
        return place

    def _place(self, path: Path) -> Place:
        root = self._roots.at(path)
        if root is None:
            return Place(self._roots.agent_at(path), None, None)
        room = self._rooms.setdefault(root.path, Room(ROOT_TEXT_CHARS_MAX))
        return Place(self._roots.agent_at(path), root.path, room)


class IndexedTexts(Struct):
    """The characters of a root in the search index, and whether sessions are left out."""

    chars: int = 0
    is_full: bool = False


def indexed_texts(store: Store) -> Mapping[str, IndexedTexts]:
    """Return what the search index has of each root, by the root's path. Blocking."""
    try:
        indexed = store.texts.amounts()
        known = store.catalog.all() if indexed else []
    except StorageError:
        # Roots can be seen and removed while the index cannot be read; a search says why.
        return {}
    found: dict[str, IndexedTexts] = {}
    rooms = RootRooms(store.roots)
    for one in known:
        mark, root = indexed.get(one.session_id), rooms.at(one.path).root
        if mark is None or root is None:
            continue
        texts = found.setdefault(root, IndexedTexts())
        if mark.left_out:
            texts.is_full = True
        else:
            texts.chars += mark.chars
    return found
