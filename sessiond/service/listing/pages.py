"""Cache of list pages, since clients ask for equal pages again and again.

Law: a page is valid as long as the revision is the one at which the page was made.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.catalog.catalog import Catalog
from sessiond.catalog.query import Position, Query
from sessiond.limits import KEPT_PAGE_BYTES_MAX, KEPT_PAGES_MAX
from sessiond.model.times import TimeText
from sessiond.service.store.listed import Unreadable

_Asked = tuple[Query, int, Position | None]

_syntax: Final = typed.decoder(Raw)


class LookProgress(Struct, frozen=True):
    """Progress of a look at the sessions: `done` of `total` are read; `total` is null before they are counted.

    The files that are still to be read were written at `until` or before; null where that is not known.
    """

    done: int
    total: int | None
    until: TimeText | None


class Selection(Struct, frozen=True):
    """A page: each session's info as JSON, and the position of the last one if there are more.

    `looking` tells of a look under way, behind which there may be more; None for a page of all sessions.
    """

    sessions: list[bytes]
    last: Position | None
    revision: int
    unreadable: list[Unreadable]
    looking: LookProgress | None = None


class Pages:
    """The pages that were asked for last."""

    def __init__(self) -> None:
        self._kept: dict[_Asked, Selection] = {}

    def page(
        self, catalog: Catalog, revision: int, query: Query, limit: int, after: Position | None
    ) -> Selection:
        """Return up to `limit` sessions behind `after`, without the unreadable files. Blocking."""
        asked = (query, limit, after)
        page = self._kept.get(asked)
        if page is None or page.revision != revision:
            page = _read(catalog, revision, asked)
            self._keep(asked, page)
        return page

    def _keep(self, asked: _Asked, page: Selection) -> None:
        self._kept.pop(asked, None)
        if sum(map(len, page.sessions)) <= KEPT_PAGE_BYTES_MAX:
            self._kept[asked] = page
        if len(self._kept) > KEPT_PAGES_MAX:
            del self._kept[next(iter(self._kept))]


def _read(catalog: Catalog, revision: int, asked: _Asked) -> Selection:
    query, limit, after = asked
    rows, more = catalog.page(query, limit, after)
    last = rows[-1][1:] if more else None
    shown = [row[0] for row in rows]
    if not all(map(_is_whole, shown)):
        catalog.file.refuse("a row is damaged")
    return Selection(shown, last, revision, [])


def _is_whole(info: bytes) -> bool:
    """Return whether the stored info is JSON that can be part of an answer."""
    try:
        _syntax.decode(info.decode())
    except (UnicodeDecodeError, msgspec.DecodeError):
        return False
    return True
