"""Prompts and values move into a place that has some already, while other daemons go on there."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.errors import StorageError
from sessiond.service.database.database import Head
from sessiond.service.queues import QUEUES
from sessiond.state.codec import STATE
from sessiond.testing.database import MemoryConnection, MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create
from tests.service.test_moving import Town, ask, at, interrupt

HERE, THERE = "a-session-of-this-profile", "a-session-of-another-daemon"
PROMPTS = {name: [f"p{number}-of-{name}" for number in range(3)] for name in (HERE, THERE)}
NOTE: dict[str, Any] = {"namespace": "notes", "key": "a"}


def queue(town: Town, session_id: str, *, on_database: bool = False) -> None:
    """Make a session, for which prompts wait."""

    async def act(wire: Wire) -> None:
        await create(wire, session_id=session_id, persist="immediate")
        for queue_id in PROMPTS[session_id]:
            said = {"kind": "steer", "data": queue_id, "queue": True, "queue_id": queue_id}
            await wire.call("session/signal", session_id=session_id, **said)

    at(town, act, on_database=on_database)


async def waiting(wire: Wire) -> dict[str, list[str]]:
    """Return the prompts that wait for each session."""
    return {
        name: await call(wire, "session/queue", "waiting[].queue_id", session_id=name)
        for name in PROMPTS
    }


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_prompts_join_those_that_wait_in_the_database(town: Town, is_interrupted: bool) -> None:
    queue(town, HERE)
    queue(town, THERE, on_database=True)
    if is_interrupted:
        interrupt(town, "put_document")
    assert set(town.move().values()) == {None}
    assert at(town, waiting, on_database=True) == PROMPTS


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_prompts_join_those_that_wait_in_the_profile(town: Town, is_interrupted: bool) -> None:
    queue(town, HERE)
    queue(town, THERE, on_database=True)
    if is_interrupted:
        interrupt(town, "put_document", back=True)
    assert set(town.move(back=True).values()) <= {None}
    assert at(town, waiting) == PROMPTS


class Followed(MemoryConnection):
    """A connection of which another daemon changes the value right behind a write, or before it."""

    def __init__(self, place: MemoryDatabase, *, is_before: bool) -> None:
        super().__init__(place)
        self._is_before = is_before

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        if not self._is_before:
            assert super().put_document(kind, namespace, at, token, data)
        there = self.document(kind, namespace, b"")
        assert there is not None
        changed = there.data.replace(b'"here"', b'"changed"')
        assert super().put_document(kind, namespace, there.token, b"other", changed)
        return not self._is_before or super().put_document(kind, namespace, at, token, data)


def move_followed(town: Town, *, is_before: bool, back: bool) -> dict[str, Exception | None]:
    """Return the outcomes of a move during which another daemon changes each namespace."""
    whole = town.database
    town.database = Followed(town.place, is_before=is_before)
    outcomes = town.move(back=back)
    town.database.close()
    town.database = whole
    return outcomes


def test_values_may_change_right_behind_their_move(town: Town) -> None:
    ask(town, "state/set", value="here", **NOTE)
    assert move_followed(town, is_before=False, back=False) == {"notes": None}
    assert town.move() == {}
    assert ask(town, "state/get", "value", on_database=True, **NOTE) == "changed"


def test_values_join_a_namespace_whose_values_are_gone(town: Town) -> None:
    async def forget(wire: Wire) -> None:
        await wire.call("state/set", value="here", **NOTE)
        await wire.call("state/delete", **NOTE)

    at(town, forget, on_database=True)
    ask(town, "state/set", value="here", **NOTE)
    assert set(town.move().values()) == {None}
    assert ask(town, "state/get", "value", on_database=True, **NOTE) == "here"


class Busy(MemoryConnection):
    """A connection of which another daemon changes one session right before the session is deleted."""

    def delete(
        self, at: Head, *, unless_appended: bool = False, epoch: str | None = None
    ) -> Head | None:
        head = self.find(THERE)
        if head is not None and head.number == at.number:
            assert self.renew(head, "another-epoch", head.digest) is not None
        return super().delete(at, unless_appended=unless_appended, epoch=epoch)


def test_the_prompts_of_a_session_that_stays_in_the_database_stay_there(town: Town) -> None:
    for session_id in PROMPTS:
        queue(town, session_id, on_database=True)
    whole = town.database
    town.database = Busy(town.place)
    outcomes = town.move(back=True)
    town.database.close()
    town.database = whole
    assert {name for name, error in outcomes.items() if error is not None} == {THERE}

    async def come_back(wire: Wire) -> Any:
        """Return the prompts of the session, which was in the trash."""
        await wire.call("session/restore", session_id=THERE)
        return await call(wire, "session/queue", "waiting[].queue_id", session_id=THERE)

    waiting_here = ask(town, "session/queue", "waiting[].queue_id", session_id=HERE)
    assert waiting_here == PROMPTS[HERE]
    there: dict[str, Any] = {"session_id": THERE, "on_database": True}
    assert ask(town, "session/queue", "waiting[].queue_id", **there) == PROMPTS[THERE]
    ask(town, "session/delete", **there)
    assert set(town.move(back=True).values()) <= {None}
    assert at(town, come_back, on_database=True) == PROMPTS[THERE]
    assert set(town.move(back=True).values()) == {None}
    assert at(town, waiting) == PROMPTS


def test_a_profile_keeps_its_prompts_where_a_move_back_meets_a_change(town: Town) -> None:
    queue(town, HERE)
    queue(town, THERE, on_database=True)
    before = town.document(STATE, QUEUES)
    outcome = move_followed(town, is_before=True, back=True)[QUEUES]
    assert isinstance(outcome, StorageError)
    assert outcome.data()["retryable"]
    assert town.document(STATE, QUEUES) == before
    assert set(town.move(back=True).values()) == {None}
    assert at(town, waiting) == PROMPTS
