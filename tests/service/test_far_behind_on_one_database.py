"""A daemon that is far behind another daemon of its database: bounded memory, and one order for all."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Self

import pytest
from anyio import fail_after

from sessiond.errors import StorageError
from sessiond.journal.store import Found
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.database.log import DatabaseLog
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.kit.sessions import SESSION
from tests.service.one_database.connections import Wrapped
from tests.service.one_database.site import NEVER, Site
from tests.service.test_presence_on_one_database import is_shown
from tests.service.test_signals_on_one_database import signal, told

PIECE = 4000
MANY = 60
TEXT = "x" * 500
LATE = {"role": "user", "content": "late"}
NAMES = [f"e-{number}" for number in range(MANY)]
IDS = "entries[].{seq,entry.id}"


class Line(bytes):
    """A fetched line that counts while it is in memory."""

    guard: ClassVar = threading.RLock()
    now: ClassVar[int] = 0
    peak: ClassVar[int] = 0

    @classmethod
    def add(cls, size: int) -> None:
        with cls.guard:
            cls.now += size
            cls.peak = max(cls.peak, cls.now)

    def __new__(cls, data: bytes) -> Self:
        cls.add(len(data))
        return super().__new__(cls, data)

    def __del__(self) -> None:
        self.add(-len(self))


class Piece(Line):
    """A fetched piece that counts, too, and whose lines count."""

    def split(self, *options: Any) -> list[bytes]:
        """Return parts that count."""
        return [Line(part) for part in super().split(*options)]


class Watched(Wrapped):
    """A connection whose fetched lines are counted, and which may be lost behind some pieces."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.pieces_left = 1_000_000
        self.holds: list[Any] = []
        self.fetched_under_a_hold = 0

    def hold(self, at: Head) -> Any:
        """Hold a row, and count the hold."""
        held = self.inner.hold(at)
        self.holds.append(held)
        return held

    def pieces(
        self, number: int, first: int, last: int, *, ahead: bool = False
    ) -> Generator[Piece]:
        """Yield pieces that count."""
        for piece in self.inner.pieces(number, first, last, ahead=ahead):
            self.fetched_under_a_hold += any(one._is_held for one in self.holds)
            if not self.pieces_left:
                raise StorageError("the connection was lost", errno="EIO", retryable=True)
            self.pieces_left -= 1
            yield Piece(piece)


class Rig:
    """A daemon that stores, and one that is behind; with a client of each."""

    def __init__(self, one: Wire, three: Wire, connection: Watched) -> None:
        self.one = one
        self.three = three
        self.connection = connection
        self.largest = 0
        """The most bytes of lines that were found at once."""
        self.tries = 0
        """Number of appends of both logs, those that lost a race included."""

    async def store(self, names: Sequence[str] = NAMES) -> None:
        """Store entries at the first daemon."""
        for name in names:
            await append(self.one, name, TEXT)


@asynccontextmanager
async def rig(site: Site, monkeypatch: pytest.MonkeyPatch, **limits: float) -> AsyncGenerator[Rig]:
    """Yield two daemons of which the second one sees changes only where it looks."""
    set_limits(monkeypatch, DATABASE_PIECE_BYTES=PIECE, **limits)
    monkeypatch.setattr(Line, "now", 0)
    monkeypatch.setattr(Line, "peak", 0)
    connection = Watched(site.connect())
    async with (
        site.daemon("one", poll_seconds=NEVER) as here,
        site.daemon("three", connection, NEVER) as there,
        here.connect() as one,
        there.connect() as three,
    ):
        made = Rig(one, three, connection)
        take_found, store = DatabaseLog.take_found, DatabaseLog.append

        def taken(log: DatabaseLog) -> list[Found]:
            found = take_found(log)
            made.largest = max(made.largest, sum(len(each.line) for each in found))
            return found

        def tried(log: DatabaseLog, *args: Any, **options: Any) -> None:
            made.tries += 1
            store(log, *args, **options)

        monkeypatch.setattr(DatabaseLog, "take_found", taken)
        monkeypatch.setattr(DatabaseLog, "append", tried)
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            await site.watches(three=three)
            yield made


async def test_a_daemon_far_behind_takes_lines_in_by_pieces(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(site, monkeypatch) as made:
        await made.store()
        assert (await call(made.three, "session/get"))["session"]["seq"] == MANY
        assert await told(made.three, MANY) == NAMES
        for wire in (made.three, made.one):
            assert await call(wire, "session/entries", IDS) == [*enumerate(NAMES, 1)]
        assert 0 < made.largest <= PIECE
        # The piece that was found first, the piece that is written, and the piece that has come behind it.
        assert PIECE < Line.peak <= 3 * PIECE < MANY * len(TEXT)
        # From here on the daemon is as near as ever.
        await made.store(["last"])
        assert await append(made.three, "own")
        assert await told(made.three, 2) == ["last", "own"]


async def test_signals_keep_their_order_among_lines_that_come_by_pieces(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(site, monkeypatch) as made:
        expected = list[str]()
        for number, name in enumerate(NAMES):
            if number % 7 == 3:
                kind = f"before-{name}"
                await signal(made.one, kind)
                expected.append(kind)
            await made.store([name])
            expected.append(name)
        await call(made.one, "session/presence", state="thinking")
        # The line is stored behind the signals, and before or behind the presence.
        await made.store(["last"])
        await eventually(lambda: is_shown(made.three))
        assert await told(made.three, len(expected) + 2) == [*expected, "last", "session/presence"]


async def test_an_append_far_behind_is_stored_behind_all_lines(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(site, monkeypatch) as made:
        await made.store()
        answer = await append(made.three, "own")
        assert answer["entries"][0]["seq"] == MANY + 1
        assert await told(made.three, MANY + 1) == [*NAMES, "own"]
        stored = await call(made.one, "session/entries", IDS)
        assert stored == [*enumerate([*NAMES, "own"], 1)]
        assert made.largest <= PIECE


async def test_no_daemon_waits_for_the_fetch_of_many_lines(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(site, monkeypatch, CONTENDED_SECONDS=PATIENCE_SECONDS) as made:
        # From its first lost race on, the daemon appends in turn.
        await made.store(["first"])
        await append(made.three, "own-1")
        await made.store()
        held, tries = len(made.connection.holds), made.tries
        assert (await append(made.three, "own-2"))["entries"][0]["seq"] == MANY + 3
        # One hold finds that lines are missing, and the other one is that of the append.
        assert len(made.connection.holds) == held + 2
        assert made.tries == tries + 1
        assert made.connection.fetched_under_a_hold == 0
        assert await told(made.three, MANY + 3) == ["first", "own-1", *NAMES, "own-2"]


# -- failures ----------------------------------------------------------------------------


async def test_lines_that_do_not_fit_the_row_are_not_told_one_by_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rig(site, monkeypatch) as made:
        await made.store()
        site.put_line(MANY - 1, site.line(MANY - 1) + b" ")
        await call(made.three, "session/get")
        # Under the next epoch all lines are told anew.
        assert await told(made.three, 1) == ["session/replaced"]
        assert await told(made.three, MANY) == NAMES


@pytest.mark.parametrize("pieces", [1, 5])
async def test_a_lost_connection_leaves_nothing_half_taken(
    site: Site, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    async with rig(site, monkeypatch) as made:
        await made.store()
        made.connection.pieces_left = pieces
        refusal = await made.three.refusal("append", session_id=SESSION, message=LATE)
        assert refusal.data["retryable"]
        assert made.three.notifications == []
        made.connection.pieces_left = 1_000_000
        await append(made.three, "own")
        assert await told(made.three, MANY + 1) == [*NAMES, "own"]
        stored = await call(made.one, "session/entries", IDS)
        assert stored == [*enumerate([*NAMES, "own"], 1)]
