"""Progress of long work, as an editor shows and cancels it.

Law: work of less than a second shows nothing. Work that its user cancels ends with `Cancelled`, at
the next wait.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

import anyio

_SHOWN_AFTER_SECONDS: Final = 1.0
_REPORT_SECONDS: Final = 0.2
_CREATE_SECONDS: Final = 5.0

Token = str | int


class Cancelled(Exception):
    """Long work that the editor's user cancelled."""


class ProgressWire(Protocol):
    """The messages of progress, as the editor gets them."""

    @property
    def can_create(self) -> bool:
        """Return whether the editor takes tokens of the server."""
        ...

    async def create(self, token: Token) -> bool:
        """Announce a token of the server; return whether the editor took the token."""
        ...

    def begin(self, token: Token, title: str) -> None:
        """Show work that can be cancelled."""
        ...

    def report(self, token: Token, text: str, percentage: int | None) -> None:
        """Show how far work is."""
        ...

    def end(self, token: Token) -> None:
        """Show no longer."""
        ...


class Work:
    """Work that goes on."""

    def __init__(
        self, wire: ProgressWire, title: str, token: Token | None, *, shown_after: float
    ) -> None:
        self.token: Token = uuid.uuid4().hex if token is None else token
        self.was_cancelled = False
        self.scope = anyio.CancelScope()
        self._wire = wire
        self._title = title
        self._shown_after = shown_after
        self._is_announced = token is not None
        self._is_shown = False
        self._next = 0.0
        self._newest: tuple[int, int | None, str] | None = None

    def report(self, done: int, total: int | None, unit: str) -> None:
        """Record how far the work is: done, of how many (None: not known), of what."""
        self._newest = done, total, unit
        now = anyio.current_time()
        if self._is_shown and now >= self._next:
            self._next = now + _REPORT_SECONDS
            self._tell()

    def cancel(self) -> None:
        """End the work because its user cancelled it."""
        self.was_cancelled = True
        self.scope.cancel()

    async def show_when_long(self) -> None:
        """Show the work once it has taken a while."""
        await anyio.sleep(self._shown_after)
        if not self._is_announced and not await self._announced():
            return
        self._is_shown = True
        self._wire.begin(self.token, self._title)
        self._tell()

    def end(self) -> None:
        """Show the work no longer."""
        if self._is_shown:
            self._wire.end(self.token)

    async def _announced(self) -> bool:
        if not self._wire.can_create:
            return False
        with anyio.move_on_after(_CREATE_SECONDS):
            return await self._wire.create(self.token)
        return False

    def _tell(self) -> None:
        if self._newest is None:
            return
        done, total, unit = self._newest
        share = min(100, done * 100 // total) if total else None
        text = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
        self._wire.report(self.token, text, share)


Progress = Callable[[str], AbstractAsyncContextManager[Work]]
"""Function that shows work under a title; see `Works.work`."""


class Works:
    """Works of one editor, by their tokens."""

    def __init__(self, wire: ProgressWire, *, shown_after: float = _SHOWN_AFTER_SECONDS) -> None:
        self._wire = wire
        self._shown_after = shown_after
        self._works: dict[Token, Work] = {}

    def cancel(self, token: Token) -> None:
        """Cancel the work of a token; a token of ended work is ignored."""
        if (work := self._works.get(token)) is not None:
            work.cancel()

    @asynccontextmanager
    async def work(self, title: str, token: Token | None = None) -> AsyncGenerator[Work]:
        """Run work under a title; `token` is the editor's, if the request had one.

        Raises Cancelled.
        """
        work = Work(self._wire, title, token, shown_after=self._shown_after)
        self._works[work.token] = work
        failure: Exception | None = None
        try:
            with work.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(work.show_when_long)
                    try:
                        yield work
                    except Exception as error:  # noqa: BLE001 - raised again, outside of the group
                        failure = error
                    tasks.cancel_scope.cancel()
        finally:
            del self._works[work.token]
            work.end()
        if failure is not None:
            raise failure
        if work.was_cancelled:
            raise Cancelled(title)
