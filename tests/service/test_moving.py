"""A profile moves from its files into a database and back: nothing is lost, replaced or half there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from sessiond.errors import SessionCorrupt, SessionExists, StorageError
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.splitter import whole_lines
from sessiond.service.database.database import Head, chained
from sessiond.service.database.moving.documents import DocumentsIn, DocumentsOut
from sessiond.service.database.moving.joining import Keep
from sessiond.service.database.moving.sessions_in import SessionsIn
from sessiond.service.database.moving.sessions_out import SessionsOut
from sessiond.service.database.moving.way import Remark
from sessiond.service.database.store import DatabaseStore
from sessiond.service.files.store import FileStore
from sessiond.state.codec import SECRETS, STATE
from sessiond.testing.daemon import running_daemon, standing_environment
from sessiond.testing.database import MemoryConnection, MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import append, call, create, refused

PLACED, ARCHIVED, DRAFT = "a-session-in-place", "an-archived-session", "a-draft-of-a-session"


class Town:
    """A profile, and a database in memory."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.place = MemoryDatabase(time.time_ns)
        self.layout = Layout(home, "default")
        self.database = self.place.connection()
        self.remarks: dict[str, Remark] = {}
        """Remarks of the last move on things that left their places, by name."""

    def opened(self) -> FileStore:
        """Return the files of the profile."""
        return FileStore(self.layout, Files(), standing_environment())

    def move(self, *, back: bool = False, keep: Keep | None = None) -> dict[str, Exception | None]:
        """Move all; return the error of each, by name."""
        files = self.opened()
        outcomes: dict[str, Exception | None] = {}
        self.remarks.clear()
        try:
            sessions = (SessionsOut if back else SessionsIn)(self.database, files)
            documents = DocumentsOut if back else DocumentsIn
            for way in (
                sessions,
                documents(self.database, files, STATE, keep),
                documents(self.database, files, SECRETS, keep),
            ):
                for name in way.names():
                    outcomes[name] = None
                    try:
                        remark = way.move(name)
                    except (SessionExists, SessionCorrupt, StorageError) as error:
                        outcomes[name] = error
                    else:
                        self.remarks |= {} if remark is None else {name: remark}
        finally:
            files.close()
        return outcomes

    def move_until_killed(self, connection: MemoryConnection, *, back: bool) -> None:
        """Begin a move by a connection that ends the process."""
        whole, self.database = self.database, connection
        with pytest.raises(KeyboardInterrupt):
            self.move(back=back)
        self.database.close()
        self.database = whole

    def lines(self, session_id: str) -> list[bytes]:
        """Return the lines that the database has of a session."""
        head = self.database.find(session_id)
        assert head is not None
        return whole_lines(b"".join(self.database.pieces(head.number, 0, head.seq)))

    def file(self, session_id: str) -> bytes:
        """Return the bytes of a session's file."""
        path = self.layout.find(Files(), session_id)
        assert path is not None
        return path.read_bytes()

    def document(self, kind: str, name: str) -> bytes | None:
        """Return the bytes of a document of the profile's files."""
        files = self.opened()
        try:
            return files.raw_documents(kind).load(name)
        finally:
            files.close()

    def daemon(self, *, on_database: bool = False) -> Any:
        """Return a daemon of the profile, on its files or on the database."""
        keep = (
            (lambda files: DatabaseStore(self.place.connection(), files)) if on_database else None
        )
        return running_daemon(self.home, keep=keep)


async def settle(town: Town) -> dict[str, Any]:
    """Make sessions in each place, values and a secret; return what a daemon shows of them."""
    async with town.daemon() as daemon, daemon.connect() as wire:
        for session_id, persist in ((PLACED, "immediate"), (ARCHIVED, "immediate"), (DRAFT, None)):
            given = {} if persist is None else {"persist": persist}
            await create(wire, session_id=session_id, **given)
            await append(wire, f"e1-of-{session_id}", session_id=session_id)
            await append(wire, f"e2-of-{session_id}", "\u2028 é", session_id=session_id)
        await wire.call("session/archive", session_id=ARCHIVED)
        await wire.call("state/set", namespace="notes", key="a", value=[1, "é"])
        await wire.call("secret/set", namespace="keys", key="k", value="v")
        return await shown(wire)


async def shown(wire: Wire) -> dict[str, Any]:
    """Return all that is to survive a move, as a daemon shows it."""
    listed = await wire.call("session/list", drafts=True, archived=None)
    found: dict[str, Any] = {
        one["id"]: (one["archived"], one["title"], one["cwd"]) for one in listed["sessions"]
    }
    for session_id in (PLACED, ARCHIVED, DRAFT):
        asked = {"session_id": session_id}
        found[f"entries of {session_id}"] = await call(wire, "session/entries", "entries", **asked)
        found[f"context of {session_id}"] = await call(wire, "build_context", "messages", **asked)
    found["value"] = await call(wire, "state/get", "value", namespace="notes", key="a")
    found["secret"] = await call(wire, "secret/get", "value", namespace="keys", key="k")
    return found


def at(town: Town, act: Callable[[Wire], Any], *, on_database: bool = False) -> Any:
    """Return what `act` does with a client of a daemon, on the files or on the database."""

    async def run() -> Any:
        async with town.daemon(on_database=on_database) as daemon, daemon.connect() as wire:
            return await act(wire)

    return anyio.run(run)


def ask(
    town: Town, method: str, part: str = "", *, on_database: bool = False, **params: Any
) -> Any:
    """Call a method of a daemon, on the files or on the database; return a part of the answer."""
    return at(town, lambda wire: call(wire, method, part, **params), on_database=on_database)


ALL = {PLACED: None, ARCHIVED: None, DRAFT: None, "notes": None, "keys": None}


def test_a_profile_moves_into_a_database_and_back_with_its_bytes(town: Town) -> None:
    before = anyio.run(settle, town)
    bytes_before = {name: town.file(name) for name in (PLACED, ARCHIVED, DRAFT)}
    assert town.move() == ALL
    assert {
        name: b"".join(line + b"\n" for line in town.lines(name)) for name in bytes_before
    } == bytes_before
    assert list(town.layout.scan(Files(), drafts=True)) == []
    assert at(town, shown, on_database=True) == before
    assert town.move() == {}
    assert town.move(back=True) == ALL
    assert {name: town.file(name) for name in bytes_before} == bytes_before
    assert at(town, shown) == before
    assert town.move(back=True) == {}


class Ending(MemoryConnection):
    """A connection that ends right behind a change, as a killed process does."""

    def __init__(self, place: MemoryDatabase, method: str) -> None:
        super().__init__(place)
        self.method = method

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != super().__getattribute__("method"):
            return found

        def end(*arguments: Any, **members: Any) -> Any:
            found(*arguments, **members)
            raise KeyboardInterrupt

        return end


def interrupt(town: Town, method: str, *, back: bool = False) -> None:
    """Begin a move, and be killed right behind a change of the database."""
    town.move_until_killed(Ending(town.place, method), back=back)


@pytest.mark.parametrize(
    ("method", "back"),
    [("create", False), ("put_document", False), ("delete", True), ("put_document", True)],
)
def test_a_move_that_was_interrupted_is_finished_by_the_next_one(
    town: Town, method: str, back: bool
) -> None:
    before = anyio.run(settle, town)
    if back:
        town.move()
    interrupt(town, method, back=back)
    assert set(town.move(back=back).values()) == {None}
    assert at(town, shown, on_database=not back) == before


def test_what_is_there_with_other_content_is_not_replaced(town: Town) -> None:
    anyio.run(settle, town)
    header = b'{"type":"session_header"}'
    town.database.create(PLACED, "epoch-1", [[header]], "placed")
    town.database.put_document(STATE, "notes", b"", b"token", b"{}")
    bytes_before = town.file(PLACED)
    outcomes = town.move()
    assert isinstance(outcomes[PLACED], SessionExists)
    assert isinstance(outcomes["notes"], StorageError)
    assert {name for name, error in outcomes.items() if error is None} == {ARCHIVED, DRAFT, "keys"}
    assert town.lines(PLACED) == [header]
    assert town.file(PLACED) == bytes_before


def test_a_session_with_which_another_daemon_went_on_comes_back_later(town: Town) -> None:
    anyio.run(settle, town)
    town.move()
    head = town.database.find(PLACED)
    assert head is not None

    class Busy(MemoryConnection):
        def delete(
            self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
        ) -> Head | None:
            assert head is not None
            if at.number == head.number:
                # Another daemon appends right before.
                there = town.database.find(PLACED)
                assert there is not None
                line = [b'{"type":"x"}']
                town.database.append(there, line, chained(there.digest, line), sync=True)
            return super().delete(at, unless_appended=unless_appended, epoch=epoch)

    busy = Busy(town.place)
    files = town.opened()
    try:
        with pytest.raises(StorageError) as caught:
            SessionsOut(busy, files).move(PLACED)
        assert caught.value.data()["retryable"]
        assert town.layout.find(Files(), PLACED) is None
        SessionsOut(town.database, files).move(PLACED)
    finally:
        files.close()
        busy.close()
    assert town.file(PLACED).endswith(b'{"type":"x"}\n')


class EndingBefore(MemoryConnection):
    """A connection that ends right before a delete, as a killed process does."""

    def delete(
        self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
    ) -> Head | None:
        raise KeyboardInterrupt


def go_on(town: Town, session_id: str) -> list[bytes]:
    """Append a line to a session of the database as another daemon does; return all lines."""
    there = town.database.find(session_id)
    assert there is not None
    line = [b'{"type":"x"}']
    assert town.database.append(there, line, chained(there.digest, line), sync=True) is not None
    return town.lines(session_id)


def test_a_session_goes_on_behind_a_move_that_was_interrupted(town: Town) -> None:
    anyio.run(settle, town)
    town.move()
    town.move_until_killed(EndingBefore(town.place), back=True)
    (path,) = town.layout.scan(Files(), drafts=True)
    moved = town.layout.id_of(path)
    assert moved is not None
    lines = go_on(town, moved)
    assert set(town.move(back=True).values()) == {None}
    assert town.file(moved) == b"".join(line + b"\n" for line in lines)
    assert town.database.find(moved) is None


async def store_one(wire: Wire) -> None:
    await create(wire, session_id=PLACED, persist="immediate")
    await append(wire, "e-1", session_id=PLACED)


def test_a_session_that_was_deleted_behind_an_interrupted_move_stays_deleted(town: Town) -> None:
    at(town, store_one)
    interrupt(town, "create")
    head = town.database.find(PLACED)
    assert head is not None
    assert town.database.delete(head) is not None
    assert town.move() == {PLACED: None}
    assert town.database.find(PLACED) is None
    assert town.layout.find(Files(), PLACED) is None


def test_a_session_that_came_back_moves_again(town: Town) -> None:
    at(town, store_one)
    for back in (False, True, False):
        assert town.move(back=back) == {PLACED: None}
    assert town.database.find(PLACED) is not None


def test_a_retention_takes_what_an_interrupted_move_left_in_both_places(town: Town) -> None:
    async def retain(wire: Wire) -> None:
        now = {"max_age_hours": 1e-9, "dry_run": False}
        assert await call(wire, "retention/run", "sessions[].id", **now) == [PLACED]
        assert await refused(wire, "session/get", session_id=PLACED) == "session_not_found"

    at(town, store_one)
    interrupt(town, "create")
    at(town, retain, on_database=True)


def test_a_session_that_an_interrupted_move_left_in_both_places_is_deleted_in_both(
    town: Town,
) -> None:
    async def delete(wire: Wire) -> None:
        await append(wire, "e-2", session_id=PLACED)
        await wire.call("session/delete", session_id=PLACED)
        assert await refused(wire, "session/get", session_id=PLACED) == "session_not_found"
        await wire.call("session/restore", session_id=PLACED)
        ids = await call(wire, "session/entries", "entries[].entry.id", session_id=PLACED)
        assert ids == ["e-1", "e-2"]
        await wire.call("session/delete", session_id=PLACED)
        await wire.call("session/purge", session_id=PLACED)
        assert await call(wire, "session/trash", "sessions") == []

    at(town, store_one)
    interrupt(town, "create")
    at(town, delete, on_database=True)
    assert town.move() == {}


def test_a_file_of_another_session_is_no_left_over_of_a_move(town: Town) -> None:
    anyio.run(settle, town)
    town.move()
    town.move_until_killed(EndingBefore(town.place), back=True)
    (path,) = town.layout.scan(Files(), drafts=True)
    moved = town.layout.id_of(path)
    assert moved is not None
    # As many lines, the last one another one.
    other = path.read_bytes().replace(b"\xc3\xa9", b"\xc3\xa8")
    assert other != path.read_bytes()
    path.write_bytes(other)
    lines = go_on(town, moved)
    assert isinstance(town.move(back=True)[moved], SessionExists)
    assert town.file(moved) == other
    assert town.lines(moved) == lines


def test_lines_that_the_row_does_not_count_stay_where_they_are(town: Town) -> None:
    anyio.run(settle, town)
    town.move()
    head = town.database.find(PLACED)
    assert head is not None
    town.place.lines[head.number][-1] += b" "
    outcomes = town.move(back=True)
    assert isinstance(outcomes[PLACED], StorageError)
    assert town.layout.find(Files(), PLACED) is None
    assert town.database.find(PLACED) is not None


def test_half_a_line_keeps_a_session_in_its_file(town: Town) -> None:
    anyio.run(settle, town)
    path = town.layout.find(Files(), PLACED)
    assert path is not None
    with path.open("ab") as file:
        file.write(b"{a program wrote this")
    outcomes = town.move()
    assert isinstance(outcomes[PLACED], SessionCorrupt)
    assert town.database.find(PLACED) is None
    assert path.exists()
