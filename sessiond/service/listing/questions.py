"""Questions to the catalog, each answered once the catalog is current.

Law: an answer shows what was answered at any daemon before the question began, or its asker is told
that the answer may be old.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import anyio
from msgspec import structs

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.query import Position, Query
from sessiond.errors import SessiondError, StorageError
from sessiond.limits import UNREADABLE_SHOWN_MAX
from sessiond.service.listing.looks import ActorLooks
from sessiond.service.listing.pages import LookProgress, Pages, Selection
from sessiond.service.listing.whole_figures import WholeFigures
from sessiond.service.log.out_of_sight import require_current_lists, stale_meta
from sessiond.service.ports import Asker, Progress
from sessiond.service.store.listed import Behind, Scanner
from sessiond.service.store.session_store import SessionStore

T = TypeVar("T")

_LOOKS_MAX: Final = 5
_PAUSE_SECONDS: Final = 0.005


class InTurn(Protocol):
    """A way to store the changes and then run a function, in one call of a worker thread."""

    async def __call__(self, then: Callable[[], T]) -> T:
        """Return what `then` returns. Raises what `then` raises."""
        ...


class Questions:
    """Questions to the catalog of one store."""

    def __init__(  # noqa: PLR0913 - what is asked, and the three ways of becoming current
        self,
        store: SessionStore,
        scanner: Scanner,
        looks: ActorLooks,
        figures: WholeFigures,
        *,
        now: Callable[[], str],
        revision: Callable[[], int],
        is_behind: Callable[[], bool],
        in_turn: InTurn,
        look_around: Callable[[Progress], Awaitable[None]],
        glance: Callable[[Progress], Awaitable[LookProgress | None]],
    ) -> None:
        """Take `is_behind`, true while rows are lost, and two ways of looking, which report how far they are.

        `look_around` runs a scan to its end. `glance` waits a moment for one, and returns how far the scan is by
        then; None behind its end.
        """
        self._store = store
        self._scanner = scanner
        self._looks = looks
        self._figures = figures
        self._now = now
        self._revision = revision
        self._is_behind = is_behind
        self._in_turn = in_turn
        self._look_around = look_around
        self._glance = glance
        self._pages = Pages()

    async def select(
        self,
        query: Query,
        limit: int,
        after: Position | None,
        asker: Asker,
        *,
        whole: bool = True,
    ) -> Selection:
        """Return a page of a list; of one in the order of figures, behind the reading of all figures.

        A page that need not be `whole` comes a moment after it was asked for, and says how far the look is.
        """

        def page(catalog: Catalog) -> Selection:
            found = self._pages.page(catalog, self._revision(), query, limit, after)
            unreadable = self._scanner.unreadable(drafts=query.drafts, archived=query.archived)
            return structs.replace(
                found,
                sessions=self._store.with_activity(found.sessions),
                unreadable=unreadable[:UNREADABLE_SHOWN_MAX],
            )

        if not whole:
            found, looking = await self.glance(page, asker)
            if looking is not None:
                return structs.replace(found, looking=looking)
        else:
            found = await self.ask(page, asker)
        if query.sort == "message_count" and after is None:
            # A file that was just written to may be looked at once more, and be a part again.
            for _ in range(_LOOKS_MAX):
                if not await self._figures.complete(asker.progress):
                    break
                found = await self.ask(page, asker)
        return found

    async def glance(
        self, question: Callable[[Catalog], T], asker: Asker
    ) -> tuple[T, LookProgress | None]:
        """Ask the catalog a moment later, current or not; return how far the look is that goes on behind the answer."""
        looking = await self._glance(asker.progress)
        if looking is None:
            return await self.ask(question, asker), None
        return await self._in_turn(lambda: question(self._store.catalog)), looking

    async def ask(self, question: Callable[[Catalog], T], asker: Asker) -> T:
        """Ask the catalog in a worker thread, once it is current. Raises StorageError, and what `question` raises.

        The asker is told that the answer may be old if a look for this question was not answered. A refusal
        that may be old is a StorageError.
        """
        began, unanswered, looks = self._now(), self._looks.unanswered, 0
        looked: Behind = {}

        def answer() -> tuple[T | SessiondError, bool] | None:
            self._store.require_there()
            self._scanner.caught_up(looked)
            # One look is enough, unless sessions were opened or closed meanwhile.
            is_old = self._scanner.shows_old_rows() if looks else self._scanner.is_due()
            if is_old and looks < _LOOKS_MAX and self._looks.unanswered == unanswered:
                return None
            found: T | SessiondError
            try:
                found = question(self._store.catalog)
            except SessiondError as refusal:
                found = refusal
            # If the catalog was deleted meanwhile, the answer is that of an empty one.
            return None if self._is_behind() else (found, is_old)

        while True:
            answered = await self._in_turn(answer)
            if answered is not None:
                break
            # Sessions that are being opened or closed come to their rows in a moment.
            await anyio.sleep(_PAUSE_SECONDS * min(looks, _LOOKS_MAX) ** 2)
            await self._look_around(asker.progress)
            looked = await self._looks.catch_up()
            looks += 1
        found, is_old = answered
        if is_old or self._looks.unanswered != unanswered:
            asker.result_meta = stale_meta(self._looks.stale_since or began)
        if isinstance(found, SessiondError):
            if not isinstance(found, StorageError):
                require_current_lists(asker)
            raise found
        return found
