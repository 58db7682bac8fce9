"""The log of a session in a database, far behind: pieces that wait, and what is true in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pytest

from sessiond.errors import StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.spool import Spool
from sessiond.journal.store import Overtaken, Replaced
from sessiond.service.database.database import NO_LINES, Head, Place, SessionDatabase, chained
from sessiond.service.database.following.positions import Positions
from sessiond.service.database.log import DatabaseLog
from sessiond.testing.database import MemoryDatabase
from tests.kit.limits import set_limits

FIRST = [b'{"type":"session"}', b"one"]
LATER = [b"line %d" % number for number in range(1000, 1010)]
PIECE = 3 * len(LATER[0])


class Disk(Files):
    """A disk that a test lets fail."""

    fault: Literal["fails", "spoils", "loses"] | None = None

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return bytes of the file, other bytes or too few, or fail."""
        if self.fault == "fails":
            raise OSError(5, "a bad sector")
        data = super().pread(fd, count, offset)
        return {"spoils": data.replace(b"line", b"lime"), "loses": b""}.get(str(self.fault), data)


class Cut:
    """A connection that may be lost behind so many pieces."""

    def __init__(self, inner: SessionDatabase) -> None:
        self.inner = inner
        self.cut_at: int | None = None
        self.behind_look: Callable[[], None] | None = None
        """Called once behind the next look at the row, before the answer is known here."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def heads(self, numbers: Sequence[int]) -> list[Head]:
        """Return rows as they are now, which may be old by the time they are looked at."""
        found = self.inner.heads(numbers)
        behind_look, self.behind_look = self.behind_look, None
        if behind_look is not None:
            behind_look()
        return found

    def pieces(
        self, number: int, first: int, last: int, *, ahead: bool = False
    ) -> Generator[bytes]:
        """Yield pieces, and raise StorageError where the connection is lost."""
        for at, piece in enumerate(self.inner.pieces(number, first, last, ahead=ahead)):
            if at == self.cut_at:
                raise StorageError("the connection was lost", errno="EIO", retryable=True)
            yield piece


class Site:
    """A log that is behind, and the database that is ahead."""

    def __init__(self, folder: Path) -> None:
        self.place = MemoryDatabase(time.time_ns)
        self.other = self.place.connection()
        self.connection = Cut(self.place.connection())
        self.disk = Disk()
        database: Any = self.connection
        head = database.create("s-1", "epoch", [FIRST], "placed")
        assert head is not None
        positions = Positions(database)
        spool = Spool.nameless(self.disk, folder, Path(head.session_id))
        self.log = DatabaseLog(database, positions, head, spool, lambda: "next")
        assert self.log.index(lambda _first, _lines: None)
        self.places: list[Place] = []
        self.log.on_place = self.places.append

    @property
    def row(self) -> Head:
        """The row as it is now."""
        return self.place.heads[1]

    def store(self, lines: Sequence[bytes]) -> None:
        """Store lines as another daemon does."""
        there = self.row
        assert self.other.append(there, lines, chained(there.digest, lines), sync=True) is not None

    def taken(self) -> list[bytes]:
        """Return the lines that were found, and check that the log is where its lines are."""
        found = [one.line for one in self.log.take_found()]
        known = self.log.read(0, self.log.line_count - 1)
        head = self.log.head
        assert (head.seq, head.size) == (len(known) - 1, self.log.size_bytes)
        assert head.digest == chained(NO_LINES, known)
        assert known == self.place.lines[1][: len(known)]
        return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    set_limits(monkeypatch, DATABASE_PIECE_BYTES=PIECE)
    return Site(tmp_path)


def looked(site: Site) -> list[list[bytes]]:
    """Look until no line waits; return what each look has found."""
    looks = list[list[bytes]]()
    while True:
        site.log.look()
        looks.append(site.taken())
        if not site.log.behind_bytes:
            return looks


def test_each_look_takes_one_piece_of_many_lines(site: Site) -> None:
    site.store(LATER)
    site.log.look()
    assert site.taken() == LATER[:3]
    assert site.log.behind_bytes == sum(map(len, LATER[3:])) + len(LATER[3:])
    assert site.log.has_grown()
    # A row as a poll may have seen the row earlier is no news, and yet there are lines.
    site.log.notice(site.log.head)
    assert site.log.has_grown()
    assert looked(site) == [LATER[3:6], LATER[6:9], LATER[9:]]
    assert site.log.is_at(site.row)
    assert site.log.read(2, 11) == LATER


def test_what_is_noticed_during_a_look_is_news_behind_the_look(site: Site) -> None:
    def ring() -> None:
        site.store([b"two"])
        assert site.log.notice(site.row)

    site.connection.behind_look = ring
    site.log.look()
    assert site.taken() == []
    assert site.log.has_grown()
    assert looked(site) == [[b"two"]]
    assert not site.log.has_grown()


def test_what_is_noticed_before_a_look_that_fails_is_news_still(site: Site) -> None:
    site.store(LATER)
    assert site.log.notice(site.row)
    site.connection.cut_at = 0
    with pytest.raises(StorageError):
        site.log.look()
    assert site.log.has_grown()


def test_of_lines_that_are_not_the_logs_none_is_taken(site: Site) -> None:
    site.store(LATER)
    site.place.lines[1][8] += b" "
    with pytest.raises(Replaced):
        site.log.look()
    assert (site.log.line_count, site.log.behind_bytes, site.taken()) == (2, 0, [])


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_a_connection_that_is_lost_in_the_middle_leaves_no_line(site: Site, pieces: int) -> None:
    site.store(LATER)
    site.connection.cut_at = pieces
    with pytest.raises(StorageError):
        site.log.look()
    assert (site.log.line_count, site.log.behind_bytes, site.taken()) == (2, 0, [])
    site.connection.cut_at = None
    site.store([b"later"])
    assert list(chain.from_iterable(looked(site))) == [*LATER, b"later"]
    assert site.log.is_at(site.row)


@pytest.mark.parametrize("fault", ["fails", "spoils", "loses"])
def test_a_failed_read_of_what_waits_leaves_the_log_less_far_behind(
    site: Site, fault: Literal["fails", "spoils", "loses"]
) -> None:
    site.store(LATER)
    site.log.look()
    assert site.taken() == LATER[:3]
    site.disk.fault = fault
    with pytest.raises(StorageError):
        site.log.look()
    site.disk.fault = None
    assert site.taken() == []
    assert site.log.has_grown()
    assert list(chain.from_iterable(looked(site))) == LATER[3:]


def test_what_is_stored_meanwhile_comes_with_the_next_look(site: Site) -> None:
    site.store(LATER)
    site.log.look()
    site.store([b"later"])
    site.taken()
    assert list(chain.from_iterable(looked(site))) == LATER[3:]
    assert looked(site) == [[b"later"]]


def test_an_append_is_overtaken_while_lines_wait(site: Site) -> None:
    site.store(LATER)
    with pytest.raises(Overtaken):
        site.log.append([b"mine"], sync=True)
    assert site.taken() == LATER[:3]
    with pytest.raises(Overtaken):
        site.log.append([b"mine"], sync=True)
    with pytest.raises(StorageError):
        site.log.append([b"mine"], sync=True, late=True)
    assert site.row.seq == 11
    assert site.taken() == LATER[3:9]
    assert looked(site) == [LATER[9:]]
    site.log.append([b"mine"], sync=True)
    assert site.place.lines[1] == [*FIRST, *LATER, b"mine"] == site.log.read(0, 12)


def test_a_row_is_not_held_while_lines_wait(site: Site) -> None:
    site.store(LATER)
    assert not site.log.hold()
    assert (site.log.is_held, site.place.holders, site.taken()) == (False, {}, LATER[:3])
    site.log.look()
    site.log.look()
    assert site.taken() == LATER[3:9]
    # The last line would come with the row; and yet that line waits here.
    assert not site.log.hold()
    assert looked(site) == [LATER[9:]]
    assert site.log.hold()
    site.log.append([b"mine"], sync=True)
    assert site.place.lines[1][-1] == b"mine"


@pytest.mark.parametrize("is_moved_here", [False, True])
def test_the_place_of_a_session_comes_with_the_last_line(site: Site, is_moved_here: bool) -> None:
    site.store(LATER)
    if not is_moved_here:
        site.other.move(site.row, "archived")
    site.log.look()
    assert (site.places, site.log.head.place) == ([], "placed")
    if is_moved_here:
        site.log.bring("archived")
    looked(site)
    # This daemon knows of its own change, which came behind the fetch.
    assert site.places == ([] if is_moved_here else ["archived"])
    assert site.log.head.place == "archived"
    assert site.log.has_grown()
    looked(site)
    assert site.log.is_at(site.row)
    assert not site.log.has_grown()


def test_a_few_lines_cost_a_row_and_one_piece(site: Site) -> None:
    calls = list[str]()

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            calls.append(name)
            return method(*args)

        return call

    site.store(LATER[:2])
    for name in ("heads", "pieces"):
        setattr(site.connection, name, counted(name, getattr(site.connection, name)))
    site.log.look()
    assert (calls, site.taken(), site.log.has_grown()) == (["heads", "pieces"], LATER[:2], False)


def test_a_change_of_leases_tells_of_a_place_that_another_daemon_gave(site: Site) -> None:
    assert site.other.move(site.log.head, "archived") is not None
    assert site.log.lease(site.log.there(), b"leases")
    assert site.places == ["archived"]
    assert site.log.head.place == "archived"
