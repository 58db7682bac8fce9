"""A database that several daemons share, and daemons on machines of their own."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from itertools import count
from pathlib import Path
from typing import Any

from anyio import fail_after, to_thread
from msgspec import structs

from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.silence import Silence
from sessiond.service.database.store import DatabaseStore
from sessiond.service.environment import Environment
from sessiond.testing.daemon import Daemon, running_daemon, standing_environment
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import call
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.service.one_database.connections import Mute, Wrapped

POLL_SECONDS = 0.01
NEVER = 1e6
"""No poll comes in a test, and no ring is heard: what a daemon sees of another one, it looks for."""
SPOILT_ID = r"\xff00fe"
"""Id of bytes that are no text, as SQL spells the bytes."""


def environment_of(name: str) -> Environment:
    """Return an environment whose ids no other daemon has."""
    numbers = count(1)

    def new_id() -> str:
        return f"{name}-made-{next(numbers)}"

    return structs.replace(
        standing_environment(),
        new_entry_id=new_id,
        new_session_id=new_id,
        new_epoch=new_id,
        new_lease_id=new_id,
        # The clocks of two machines differ.
        now=lambda: f"2026-01-15T10:30:0{len(name)}.000Z",
        # Leases end by the database's clock, which runs.
        monotonic=time.monotonic,
    )


class Site:
    """A database in memory, and daemons on machines of their own."""

    def __init__(self, home: Path) -> None:
        self.passed_ns = 0
        """Time that a test lets pass, beside its own."""
        self._place = MemoryDatabase(lambda: time.time_ns() + self.passed_ns)
        self.home = home
        self._mute: dict[str, Mute] = {}

    def connect(self) -> SessionDatabase:
        """Return a connection of one more daemon."""
        return self._place.connection()

    @property
    def listeners(self) -> int:
        """Number of daemons that hear rings."""
        return len(self._place.bells)

    @property
    def is_held(self) -> bool:
        """True while a daemon keeps other daemons from a row."""
        return bool(self._place.holders)

    async def is_heard_by(self, count: int) -> None:
        """Wait until just so many daemons hear rings, which they do while something is watched there."""
        await eventually(lambda: self.listeners == count)

    def age(self) -> None:
        """Let two days pass behind the last write to each session."""
        self.passed_ns += 2 * 24 * 3600 * 10**9

    def silence_daemons(self) -> None:
        """Let an hour pass behind the last note of each daemon."""
        place = self._place
        with place.guard:
            for daemon, (numbers, at) in place.open_notes.items():
                place.open_notes[daemon] = numbers, at - 3600 * 10**9

    def forget_open_notes(self) -> None:
        """Forget which sessions the daemons have open."""
        self._place.open_notes.clear()

    def spoil_line(self, number: int) -> None:
        """Change the last line of a session to one that does not parse, as a person could."""
        self._place.lines[number][-1] = b'{"type":"message","id":'

    def change_row(self, **values: Any) -> None:
        """Change columns of the row of the first session, as a person could."""
        self._place.heads[1] = structs.replace(self._place.heads[1], **values)

    def spoil_id(self) -> None:
        """Put bytes that are no text into the id of the first session, as a person could."""
        with self._place.guard:
            self._place.put(structs.replace(self._place.heads[1], session_id=SPOILT_ID))

    def spoil_presence(self) -> None:
        """Change what the database has of who is present, as a person could."""
        self._place.company.spoil()

    def remove_row(self) -> None:
        """Remove the row of the first session, as a person could."""
        del self._place.heads[1], self._place.changes[1]

    def line(self, seq: int) -> bytes:
        """Return a line of the first session."""
        return self._place.lines[1][seq]

    def put_line(self, seq: int, line: bytes) -> None:
        """Put another line in the place of one of the first session, as a person could."""
        self._place.lines[1][seq] = line

    def remove_line(self, seq: int) -> None:
        """Remove a line of the first session, as a person could."""
        del self._place.lines[1][seq]

    def remember(self) -> None:
        """Keep the state of the database."""
        place = self._place
        with place.guard:
            tables = place.lines, place.heads, place.changes, place.documents, place.reserved
            self._kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = [
                (table, deepcopy(table)) for table in tables
            ]

    def bring_back(self, elsewhere: bool = False) -> None:
        """Bring the database back to the state that was kept, or move that state to another server."""
        place = self._place
        with place.guard:
            for table, kept in self._kept:
                table.clear()
                table.update(deepcopy(kept))
            if elsewhere:
                # The other server has done little so far.
                place.last_change = 1

    def drop_last_line(self) -> None:
        """Remove a line of the first session, as a person could."""
        self._place.lines[1].pop()

    def change_last_line(self) -> None:
        """Change a line of the first session, as a person could."""
        self._place.lines[1][-1] += b" "

    def empty_company(self) -> None:
        """Empty the tables of signals and presence, as a crash of the server does."""
        self._place.company.crash()

    def lose_signals(self) -> None:
        """Remove all signals, as their time does."""
        self._place.company.remove_signals()

    @asynccontextmanager
    async def daemon(
        self,
        name: str,
        connection: SessionDatabase | Wrapped | None = None,
        poll_seconds: float = POLL_SECONDS,
        silence: Silence | None = None,
        **environment: Any,
    ) -> AsyncGenerator[Daemon]:
        """Run a daemon; a second one of the same name is the first one's successor.

        No daemon ends by its silence, unless `silence` says that. `environment` has what the daemon's
        environment has in place of the usual.
        """
        database: Any = connection or self.connect()
        if poll_seconds == NEVER:
            database = self._mute[name] = Mute(database)
        async with running_daemon(
            self.home / name,
            environment=structs.replace(environment_of(name), **environment),
            keep=lambda files: DatabaseStore(
                database, files, poll_seconds, silence or Silence(NEVER)
            ),
        ) as daemon:
            yield daemon

    async def watches(self, **wires: Wire) -> None:
        """Wait until daemons that never poll have looked at the session, and look no more on their own.

        The wires are clients of the daemons, by name. The watch of a session begins with one look, which may
        make the session look once more: a test that counts looks, or what one look finds, begins behind both.
        """
        for name, wire in wires.items():
            await happened(self._mute[name].has_looked)
            # The answer is behind all looks that were due.
            await call(wire, "session/get")


@asynccontextmanager
async def clients_of(
    site: Site, *names: str, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[list[Wire]]:
    """Yield a client of a daemon for each name."""
    async with AsyncExitStack() as ends:
        wires = []
        for name in names:
            daemon = await ends.enter_async_context(site.daemon(name, poll_seconds=poll_seconds))
            wires.append(await ends.enter_async_context(daemon.connect()))
        with fail_after(PATIENCE_SECONDS):
            yield wires


@asynccontextmanager
async def beside(
    site: Site, connection: Wrapped, poll_seconds: float = POLL_SECONDS
) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield a client of a daemon with this connection, which never polls, and one of another daemon."""
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=poll_seconds) as (three,),
        daemon.connect() as one,
    ):
        yield one, three


@asynccontextmanager
async def no_threads_for_readers() -> AsyncGenerator[None]:
    """Take all threads that reads may take; fail a test that waits for one."""
    threads = to_thread.current_default_thread_limiter()
    before, threads.total_tokens = threads.total_tokens, 1
    try:
        async with threads:
            with fail_after(PATIENCE_SECONDS):
                yield
    finally:
        threads.total_tokens = before
