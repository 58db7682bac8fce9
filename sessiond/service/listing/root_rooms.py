"""The room that the sessions of each root have in the search index.

A root is an agent's whole history, of many gigabytes, and the index has no more of it than
ROOT_TEXT_CHARS_MAX. The profile's own sessions have as much room as they need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from msgspec import Struct

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.fulltext import TextIndex
from sessiond.catalog.rows import Known
from sessiond.errors import StorageError
from sessiond.limits import ROOT_TEXT_CHARS_MAX
from sessiond.service.store.listed import Whereabouts


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

    def give(self, chars: int) -> None:
        """Give the room of a session of so many characters back."""
        self.left += chars


class Place(Struct, frozen=True):
    """The place of a session: whether another agent writes its file, and its root with the root's room.

    `outputs` is false if the outputs of tools in it are not searched.
    """

    is_agents: bool
    root: str | None
    room: Room | None
    outputs: bool


class RootRooms:
    """The rooms of all roots, each counted down by the sessions that a walk comes to."""

    def __init__(self, whereabouts: Callable[[Known], Whereabouts]) -> None:
        self._whereabouts = whereabouts
        self._rooms: dict[str, Room] = {}
        # Thousands of files lie in a few folders, and only the folder counts.
        self._places: dict[str, Place] = {}

    def at(self, known: Known) -> Place:
        """Return the place of a session."""
        folder = os.path.dirname(known.path)  # noqa: PTH120 - a search asks for every session
        place = self._places.get(folder)
        if place is None:
            place = self._places[folder] = self._place(self._whereabouts(known))
        return place

    @property
    def any_full(self) -> bool:
        """True if a root has no room for a session of its own."""
        return any(room.is_full for room in self._rooms.values())

    def _place(self, there: Whereabouts) -> Place:
        room = None
        if there.root is not None:
            room = self._rooms.setdefault(there.root, Room(ROOT_TEXT_CHARS_MAX))
        return Place(there.is_agents, there.root, room, there.outputs)


class IndexedTexts(Struct):
    """The characters of a root in the search index, and whether sessions are left out."""

    chars: int = 0
    is_full: bool = False


def indexed_texts(
    texts: TextIndex, catalog: Catalog, rooms: RootRooms
) -> Mapping[str, IndexedTexts]:
    """Return what the search index has of each root, by the root's path. Blocking."""
    try:
        indexed = texts.amounts()
        known = catalog.all() if indexed else []
    except StorageError:
        # Roots can be seen and removed while the index cannot be read; a search says why.
        return {}
    found: dict[str, IndexedTexts] = {}
    for one in known:
        mark, root = indexed.get(one.session_id), rooms.at(one).root
        if mark is None or root is None:
            continue
        amount = found.setdefault(root, IndexedTexts())
        if mark.left_out:
            amount.is_full = True
        else:
            amount.chars += mark.chars
    return found
