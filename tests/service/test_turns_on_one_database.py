"""Turns: appends of daemons that wait in turn for one session."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import pytest

from sessiond.service.database.database import Head, HeldRow, SentAppend, SessionDatabase
from sessiond.testing.daemon import Daemon
from sessiond.testing.wire import Wire
from tests.kit.calls import append, append_soon, call, cancel, create, refused, refused_answer
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import HI, SESSION
from tests.service.one_database.connections import OUT_OF_REACH, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of

BEHIND: Final[dict[str, Any]] = {"message": HI, "expected": {"leaf_id": "lost"}}
"""An append that expects the leaf of the start, behind which the other daemon has appended."""


class Turn:
    """A held row that notes what its writer does."""

    def __init__(self, inner: HeldRow, steps: list[str]) -> None:
        self.head = inner.head
        self.lines = inner.lines
        self._inner = inner
        self._steps = steps

    def send(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> SentAppend:
        """Note the number of lines."""
        self._steps.append(f"stores {len(lines)}")
        return self._inner.send(at, lines, digest, sync=sync)

    def release(self) -> None:
        """Note the end of a turn in which nothing was stored."""
        self._steps.append("ends")
        self._inner.release()


class InTurn(Wrapped):
    """A connection that notes turns, the next of which a test may hold up, refuse or spoil."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.steps: list[str] = []
        self.has_begun = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()
        self.failure: Exception | None = None
        self.has_room = True
        """False if no more rows may be held at once."""
        self.is_cut = False
        """True if the next append out of turn fails before its work."""

    def hold(self, at: Head) -> Any:
        """Wait for the turn."""
        self.steps.append("waits")
        self.has_begun.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure
        held = self.inner.hold(at) if self.has_room else None
        return None if held is None else Turn(held, self.steps)

    def append(self, at: Head, lines: Sequence[bytes], digest: bytes, *, sync: bool) -> Any:
        """Note an append out of turn."""
        self.steps.append("stores at once")
        if self.is_cut:
            self.is_cut = False
            raise OUT_OF_REACH
        return self.inner.append(at, lines, digest, sync=sync)


class Rig:
    """A daemon that appends in turn, with a client, and a client of the daemon beside that one."""

    def __init__(self, daemon: Daemon, connection: InTurn, one: Wire, three: Wire) -> None:
        self.daemon = daemon
        self.connection = connection
        self.one = one
        self.three = three

    async def ids(self) -> list[str]:
        """Return the ids of the entries behind those of the start, as both daemons have them."""
        found: list[str] = await call(self.one, "session/entries", "entries[].entry.id")
        assert found == await call(self.three, "session/entries", "entries[].entry.id")
        return found[2:]


@pytest.fixture
async def in_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Rig]:
    """Yield two daemons that do not hear of each other, of which one has lost a race just now."""
    # A busy machine may need longer for a test than a session is taken to be contended.
    set_limits(monkeypatch, CONTENDED_SECONDS=PATIENCE_SECONDS)
    connection = InTurn(site.connect())
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        daemon.connect() as one,
    ):
        await create(one, persist="immediate")
        # A first look behind the other daemon's append would keep this one from losing the race.
        await site.watches(one=one)
        await append(three, "before")
        await append(one, "lost")
        assert connection.steps[-2:] == ["waits", "stores 1"]
        connection.steps.clear()
        connection.has_begun.clear()
        yield Rig(daemon, connection, one, three)


async def waiting(rig: Rig, entry_id: str) -> int:
    """Send an append whose turn does not come before the test lets the turn come."""
    rig.connection.may_go.clear()
    number = await append_soon(rig.one, entry_id)
    await happened(rig.connection.has_begun)
    return number


async def test_what_comes_while_an_append_waits_is_stored_in_the_same_turn(in_turn: Rig) -> None:
    first = await waiting(in_turn, "e-1")
    more = [await append_soon(in_turn.one, f"e-{number}") for number in (2, 3)]
    await in_turn.one.call("server/ping")
    await append(in_turn.three, "other")
    in_turn.connection.may_go.set()
    for number in (first, *more):
        await in_turn.one.answer(number)
    assert in_turn.connection.steps == ["waits", "stores 3"]
    assert await in_turn.ids() == ["other", "e-1", "e-2", "e-3"]


async def test_an_append_in_turn_takes_one_turn(in_turn: Rig) -> None:
    for number in range(3):
        await append(in_turn.one, f"e-{number}")
        await append(in_turn.three, f"other-{number}")
    assert in_turn.connection.steps == ["waits", "stores 1"] * 3


async def test_a_turn_in_which_nothing_is_stored_ends(in_turn: Rig) -> None:
    await append(in_turn.three, "other")
    assert await refused(in_turn.one, "append", **BEHIND) == "precondition_failed"
    await append(in_turn.three, "another")
    assert in_turn.connection.steps == ["waits", "ends"]
    assert await in_turn.ids() == ["other", "another"]


async def test_a_list_shows_what_a_turn_without_lines_has_found(in_turn: Rig) -> None:
    await in_turn.one.call("session/list")
    await append(in_turn.three, "other")
    assert await refused(in_turn.one, "append", **BEHIND) == "precondition_failed"
    (listed,) = (await in_turn.one.call("session/list"))["sessions"]
    assert listed["message_count"] == 3


async def test_a_retry_in_turn_is_compared_with_what_is_stored(in_turn: Rig) -> None:
    first = await append(in_turn.three, "e-1")
    again = await append(in_turn.one, "e-1")
    assert (again["duplicate"], again["entries"]) == (True, first["entries"])
    await append(in_turn.three, "e-2")
    assert await in_turn.ids() == ["e-1", "e-2"]


async def test_an_append_that_is_cancelled_in_time_is_not_stored(in_turn: Rig) -> None:
    number = await waiting(in_turn, "e-1")
    await cancel(in_turn.one, number)
    assert await refused_answer(in_turn.one, number) == "cancelled"
    in_turn.connection.may_go.set()
    await append(in_turn.three, "other")
    assert await in_turn.ids() == ["other"]
    assert in_turn.connection.steps[:2] == ["waits", "ends"]


async def test_what_changes_the_row_waits_for_no_turn(in_turn: Rig) -> None:
    await call(in_turn.one, "session/archive")
    assert in_turn.connection.steps == []
    assert await refused(in_turn.three, "append", message=HI) == "session_archived"


async def test_a_change_of_the_row_behind_an_append_in_turn_follows_its_turn(in_turn: Rig) -> None:
    appended = await waiting(in_turn, "e-1")
    archived = await in_turn.one.request("session/archive", session_id=SESSION)
    await in_turn.one.call("server/ping")
    in_turn.connection.may_go.set()
    await in_turn.one.answer(appended)
    await in_turn.one.answer(archived)
    assert in_turn.connection.steps == ["waits", "stores 1"]
    assert await in_turn.ids() == ["e-1"]


async def test_an_append_that_gets_no_turn_is_stored_without(in_turn: Rig) -> None:
    in_turn.connection.has_room = False
    await append(in_turn.one, "e-1")
    assert in_turn.connection.steps == ["waits", "stores at once"]
    assert await in_turn.ids() == ["e-1"]


async def test_an_append_whose_turn_fails_tells_of_its_own_outcome(in_turn: Rig) -> None:
    in_turn.connection.failure = OUT_OF_REACH
    await append(in_turn.one, "e-1")
    assert in_turn.connection.steps == ["waits", "stores at once"]
    assert await in_turn.ids() == ["e-1"]


@pytest.mark.parametrize("ending", ["a cut connection", "a cancelled append", "a refused append"])
async def test_a_question_behind_a_turn_that_did_not_come_is_answered_behind_a_look(
    in_turn: Rig, ending: str
) -> None:
    async with in_turn.daemon.connect() as asker:
        if ending == "a refused append":
            in_turn.connection.may_go.clear()
            number = await in_turn.one.request("append", session_id=SESSION, **BEHIND)
            await happened(in_turn.connection.has_begun)
        else:
            number = await waiting(in_turn, "e-1")
        after = {"seq": (await append(in_turn.three, "other"))["seq"], "entry_id": "other"}
        read = await asker.request("session/get", session_id=SESSION)
        subscribed = await asker.request("subscribe", session_id=SESSION, after=after)
        await asker.call("server/ping")
        if ending == "a cancelled append":
            await cancel(in_turn.one, number)
            assert await refused_answer(in_turn.one, number) == "cancelled"
        in_turn.connection.is_cut = ending == "a cut connection"
        in_turn.connection.failure = OUT_OF_REACH
        in_turn.connection.may_go.set()
        assert (await asker.answer(read))["session"]["seq"] == after["seq"]
        assert "replaced" not in await asker.answer(subscribed)


async def test_a_bug_in_a_turn_closes_the_session_alone(in_turn: Rig) -> None:
    in_turn.connection.failure = ZeroDivisionError()
    assert await refused(in_turn.one, "append", message=HI) == "internal"
    assert [type(bug) for bug in in_turn.daemon.bugs] == [ZeroDivisionError]
    in_turn.daemon.bugs.clear()
    in_turn.connection.failure = None
    await append(in_turn.one, "e-1")
    assert await in_turn.ids() == ["e-1"]
