"""Lines that foreign writers append to the file of an open session.

Law: foreign lines get their seqs in the order of the file, durable first, and become ordinary
events, a bounded piece at a time. Half a line is left to its writer until an append of sessiond
follows: the append closes half a line that has not grown for HALF_LINE_SECONDS, and waits for a
growing one HALF_LINE_WAIT_SECONDS at most. No look, subscription or other read closes half a line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Final

from anyio import current_time, sleep

from sessiond.dialects.base import BadLine
from sessiond.errors import SessiondError
from sessiond.limits import (
    HALF_LINE_LOOK_SECONDS,
    HALF_LINE_SECONDS,
    HALF_LINE_WAIT_SECONDS,
    REPLAY_CHUNK_BYTES,
)
from sessiond.service.log.events import Event
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Listener
from sessiond.service.pubsub.company import CompanyNews
from sessiond.service.pubsub.hub import Hub
from sessiond.service.pubsub.messenger import Messenger

_seq: Final = attrgetter("seq")
# Behind the first one, what is missing is what other daemons have stored during a catch-up.
_HOLD_TRIES: Final = 3


class ForeignLines:
    """Foreign lines for the writer of one session; `in_thread` waits for the disk."""

    def __init__(
        self,
        opened: OpenSession,
        hub: Hub,
        messenger: Messenger,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        now: Callable[[], str],
    ) -> None:
        self._opened = opened
        self._hub = hub
        self._messenger = messenger
        self._in_thread = in_thread
        self._half_bytes: int = opened.journal.half_bytes
        self._half_since = current_time() - opened.journal.half_age if self._half_bytes else inf
        self.lost = False
        """True if the file could not be looked at; it may not exist."""
        self.lost_since: str | None = None
        """Time at which the first look in a row that failed began: what was stored before is known."""
        self._now = now

    @property
    def _half_stays_for(self) -> float:
        """Seconds that an append has to wait until half a line may be closed."""
        return self._half_since + HALF_LINE_SECONDS - current_time()

    async def look(self) -> bool:
        """Take in foreign lines, some at a time; return whether there were any. Raise Replaced.

        An error of the disk is not raised: the next write looks again and reports it.
        """
        before, began = self._state, self._now()
        self.lost = True
        try:
            if self._opened.journal.is_shared:
                await self._look_up_to_now()
            else:
                await self._look()
            self.lost, self.lost_since = False, None
        except SessiondError:
            self.lost_since = self.lost_since or began
            self.take_in()
        return self._state != before

    @property
    def _state(self) -> tuple[int, int, bool, bool]:
        """Facts that lists must follow: the last line, the file that holds it, and its place."""
        opened = self._opened
        return opened.session.seq, opened.journal.inode, opened.archived, opened.pending

    async def take_foreign_lines_first(self, *, holds: bool) -> None:
        """Take in foreign lines before an append, with half a line once it is whole. Raise Replaced.

        With `holds` other daemons do not append to the session meanwhile, if the store can do that.
        """
        self.take_in()
        try:
            await self._catch_up()
            if holds and self._opened.journal.is_shared:
                await self._hold()
            if self._opened.journal.half_bytes:
                await self._wait_for_half()
        except SessiondError:
            # The following write meets the error too, and reports it.
            self.take_in()

    async def _wait_for_half(self) -> None:
        """Take in half a line once it is whole, or close it once it has not grown for long. Raise Replaced."""
        until = current_time() + HALF_LINE_WAIT_SECONDS
        while self._opened.journal.half_bytes:
            self._see_half()
            due = self._half_stays_for <= 0 or current_time() >= until
            if due or await self._in_thread(self._half_is_whole):
                await self._close_half()
            else:
                await sleep(HALF_LINE_LOOK_SECONDS)
                await self._look()

    def take_in(self) -> None:
        """Index the found lines and send them to the subscribers."""
        touched: dict[Listener, None] = {}
        self.publish(())
        self.tell_standing(touched)
        for listener in touched:
            listener.flush()

    def publish(self, answered: Container[Listener]) -> bool:
        """Index the found lines and publish them, with signals; return whether there were any lines.

        The writer flushes the connections in `answered` itself.
        """
        found = self._opened.journal.take_found()
        news = self._messenger.take() if self._messenger.is_shared else None
        if not found and news is None:
            return False
        before = self._opened.session.seq
        events: list[Event] = []
        if found:
            first = self._opened.adopt(found)
            if self._hub.has_live:
                events = self._opened.events_of(found, first)
        if news is not None:
            events = self._publish_between(events, before, news, answered)
        self._publish(events, answered)
        if news is not None:
            self._messenger.tell_elsewhere(news)
        return bool(found)

    def _publish(self, events: Sequence[Event], answered: Container[Listener]) -> None:
        for piece in _pieces(events):
            self._hub.publish(piece, answered)

    def _publish_between(
        self,
        events: list[Event],
        before: int,
        news: CompanyNews,
        answered: Container[Listener],
    ) -> list[Event]:
        """Publish signals, and the events that come before them; return the events behind.

        `before` is the last line that was published earlier.
        """
        if news.lost:
            self._hub.signals.miss(news.lost, before)
        done = 0
        for signal in news.signals:
            first, done = done, bisect_right(events, signal.after_seq, lo=done, key=_seq)
            self._publish(events[first:done], answered)
            # A signal that was sent under an earlier epoch may name any line.
            position = max(before, min(signal.after_seq, self._opened.session.seq))
            self._hub.signals.signal(signal.body, None, position)
        return events[done:]

    def tell_standing(self, touched: dict[Listener, None]) -> None:
        """Tell subscribers if the session became archived or read-only, or ceased to be."""
        opened = self._opened
        self._hub.tell_standing(
            archived=opened.archived, read_only=opened.read_only_reason, touched=touched
        )

    async def _catch_up(self) -> None:
        """Take in the lines that are there now; a foreign writer without end is not waited for."""
        journal = self._opened.journal
        goal = journal.size_bytes + journal.behind_bytes
        while journal.behind_bytes and journal.size_bytes < goal:
            await self._look()

    async def _look_up_to_now(self) -> None:
        """Take in the lines of other daemons, all that they had stored before the call."""
        # What an earlier look has left was there then.
        await self._catch_up()
        await self._look()
        await self._catch_up()

    async def _hold(self) -> None:
        """Keep other daemons from the session, behind all of their lines, if that is possible now."""
        for _ in range(_HOLD_TRIES):
            await self._in_thread(self._opened.journal.hold)
            self.take_in()
            if not self._opened.journal.behind_bytes:
                return
            # Other daemons did not wait for so many lines.
            await self._catch_up()

    async def _look(self) -> None:
        await self._in_thread(self._opened.journal.look)
        self._see_half()
        self.take_in()
        is_at_end = not (self._opened.journal.half_bytes or self._opened.journal.behind_bytes)
        if is_at_end and self._opened.intake.atoms.unfinished is not None:
            # Lines of this session that another program copied back, out of a copy of the file. An
            # opening would take them for half an append that a crash left: a blank line ends them.
            await self._close_half()

    async def _close_half(self) -> None:
        await self._in_thread(self._opened.journal.close_half)
        self._see_half()
        self.take_in()

    def _see_half(self) -> None:
        size: int = self._opened.journal.half_bytes
        if size != self._half_bytes:
            self._half_bytes, self._half_since = size, current_time() if size else inf

    def _half_is_whole(self) -> bool:
        try:
            self._opened.dialect.row(self._opened.journal.half())
        except BadLine:
            return False
        return True


def _pieces(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Yield events in order, as many at once as a replay reads.

    No bound limits what foreign writers append between two looks, and an empty outbox takes a piece of
    any size.
    """
    first = size = 0
    for end, event in enumerate(events, 1):
        size += len(event.wire)
        if size >= REPLAY_CHUNK_BYTES:
            yield events[first:end]
            first, size = end, 0
    if first < len(events):
        yield events[first:]
