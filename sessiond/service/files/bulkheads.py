"""Bounds of the openings that wait for places outside the profile: roots of other programs, and folders.

Law: a place that does not answer costs its own openings. It holds a few threads; the next openings there wait
a few seconds, and from then on openings there are refused at once, until the place answers again.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from threading import Condition
from time import monotonic

from sessiond.errors import Overloaded
from sessiond.limits import (
    FOREIGN_OPENINGS_MAX,
    PLACE_OPENINGS_MAX,
    PLACE_PATIENCE_SECONDS,
    RETRY_AFTER_MS,
)
from sessiond.visible import printable

__all__ = ["Bulkheads"]


class Bulkheads:
    """The openings under way, by place. Any thread may enter."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._began: dict[str, list[float]] = {}
        """The times at which the openings of each place began, the oldest first."""

    @contextmanager
    def inside(self, place: str) -> Generator[None]:
        """Count an opening in a place while the block runs. Raises Overloaded for a place that does not answer."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._has_room(place) or self._is_stuck(place), PLACE_PATIENCE_SECONDS
            )
            if not self._has_room(place):
                raise self._refusal(place)
            began = monotonic()
            self._began.setdefault(place, []).append(began)
        try:
            yield
        finally:
            with self._changed:
                self._began[place].remove(began)
                if not self._began[place]:
                    del self._began[place]
                self._changed.notify_all()

    def _refusal(self, place: str) -> Overloaded:
        """Return the refusal of an opening, which names the place that does not answer, or all such places."""
        count, most = self._count(place), PLACE_OPENINGS_MAX
        said = f"{printable(place)} does not answer: {count} openings wait there"
        if count < most:
            count, most = sum(map(len, self._began.values())), FOREIGN_OPENINGS_MAX
            places = ", ".join(map(printable, self._began))
            said = f"{count} openings wait in places that do not answer: {places}"
        return Overloaded(said, limit=most, retry_after_ms=RETRY_AFTER_MS)

    def _count(self, place: str) -> int:
        return len(self._began.get(place, ()))

    def _has_room(self, place: str) -> bool:
        in_all = sum(map(len, self._began.values()))
        return self._count(place) < PLACE_OPENINGS_MAX and in_all < FOREIGN_OPENINGS_MAX

    def _is_stuck(self, place: str) -> bool:
        """Return whether the newest opening of a place began a while ago."""
        began = self._began.get(place, [])
        return bool(began) and monotonic() - began[-1] > PLACE_PATIENCE_SECONDS
