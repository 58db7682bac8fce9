"""Values that two daemons have changed around an interrupted move: both stay until an operator decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import StorageError
from sessiond.service.database.moving.joining import Keep
from sessiond.service.queues import QUEUES
from sessiond.state.codec import SECRETS, STATE
from sessiond.testing.database import MemoryConnection
from sessiond.testing.wire import Wire
from tests.service.test_moving import Town, at, interrupt
from tests.service.test_moving_documents import HERE, queue

# What the source and the target say, beside a key that is only there.
SOURCE, TARGET = "value-of-the-source", "value-of-the-target"
NAMES = {"state": "notes", "secret": "keys"}
KINDS = {"state": STATE, "secret": SECRETS}


@pytest.fixture
def town(home: Path) -> Iterator[Town]:
    made = Town(home)
    yield made
    made.database.close()


async def put(store: str, value: str, wire: Wire) -> None:
    await wire.call(f"{store}/set", namespace=NAMES[store], key="a", value=value)


async def got(store: str, wire: Wire) -> Any:
    return (await wire.call(f"{store}/get", namespace=NAMES[store], key="a"))["value"]


class EndingBefore(MemoryConnection):
    """A connection that ends right before a document is replaced, as a killed process does."""

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        raise KeyboardInterrupt


def interrupt_before_the_end(town: Town) -> None:
    """Begin a move to files, and be killed once the file of the namespace is there."""
    town.move_until_killed(EndingBefore(town.place), back=True)


def differ(town: Town, store: str, *, back: bool) -> None:
    """Interrupt a move, and change the value in the database, which is the source of a move back."""
    at(town, partial(put, store, "value-of-before" if back else SOURCE))
    if back:
        town.move()
        interrupt_before_the_end(town)
        # The key of the secrets is that of the profile.
        at(town, partial(put, store, SOURCE), on_database=True)
        # The file of the interrupted move is used, too.
        at(town, partial(put, store, TARGET))
    else:
        interrupt(town, "put_document")
        at(town, partial(put, store, TARGET), on_database=True)


def aside(town: Town, store: str) -> list[bytes]:
    """Return the bytes of the files that were put aside."""
    folder = town.layout.state if store == "state" else town.layout.secrets
    return [path.read_bytes() for path in folder.glob(f"{NAMES[store]}.json.aside-*")]


def documents(town: Town, store: str) -> tuple[bytes, bytes]:
    """Return the document of the profile, and that of the database."""
    files = town.opened()
    try:
        here = files.raw_documents(KINDS[store]).load(NAMES[store])
    finally:
        files.close()
    there = town.database.document(KINDS[store], NAMES[store], b"")
    return here or b"", b"" if there is None else there.data


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("store", ["state", "secret"])
def test_values_that_differ_stay_in_both_places_and_are_named(
    town: Town, store: str, *, back: bool
) -> None:
    differ(town, store, back=back)
    before = documents(town, store)
    for _ in range(2):
        refusal = town.move(back=back)[NAMES[store]]
        assert isinstance(refusal, StorageError)
        assert refusal.data()["errno"] == "EEXIST"
        assert refusal.message.endswith("the two differ in: a")
        assert documents(town, store) == before
    assert at(town, partial(got, store), on_database=back) == SOURCE
    assert at(town, partial(got, store), on_database=not back) == TARGET


@pytest.mark.parametrize("keep", ["source", "target"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("store", ["state", "secret"])
def test_an_operator_decides_which_values_stay(
    town: Town, store: str, keep: Keep, *, back: bool
) -> None:
    differ(town, store, back=back)
    here, there = documents(town, store)
    source, target = (there, here) if back else (here, there)
    assert town.move(back=back, keep=keep)[NAMES[store]] is None
    kept = SOURCE if keep == "source" else TARGET
    assert at(town, partial(got, store), on_database=not back) == kept
    assert aside(town, store) == [target if keep == "source" else source]
    assert NAMES[store] not in town.move(back=back)


def test_an_operator_who_decides_changes_nothing_where_nothing_differs(town: Town) -> None:
    at(town, partial(put, "state", SOURCE))
    interrupt(town, "put_document")
    assert set(town.move(keep="target").values()) == {None}
    assert at(town, partial(got, "state"), on_database=True) == SOURCE
    assert aside(town, "state") == []


def test_values_that_joined_a_namespace_without_values_are_no_other_values(town: Town) -> None:
    async def forget(wire: Wire) -> None:
        await put("state", TARGET, wire)
        await wire.call("state/delete", namespace="notes", key="a")

    at(town, forget, on_database=True)
    at(town, partial(put, "state", SOURCE))
    interrupt(town, "put_document")
    assert set(town.move().values()) == {None}
    assert at(town, partial(got, "state"), on_database=True) == SOURCE


@pytest.mark.parametrize("keep", ["source", "target"])
def test_of_the_daemons_own_records_only_those_that_differ_are_decided(
    town: Town, keep: Keep
) -> None:
    queue(town, HERE)
    interrupt(town, "put_document")
    there = town.database.document(STATE, QUEUES, b"")
    assert there is not None
    changed = there.data.replace(b'"data":"p0-of-', b'"data":"q0-of-')
    assert town.database.put_document(STATE, QUEUES, there.token, b"another", changed)
    assert isinstance(town.move()[QUEUES], StorageError)
    assert town.move(keep=keep)[QUEUES] is None

    async def look(wire: Wire) -> list[Any]:
        waiting: list[Any] = (await wire.call("session/queue", session_id=HERE))["waiting"]
        return waiting

    waiting = at(town, look, on_database=True)
    first = "p0" if keep == "source" else "q0"
    assert sorted(one["data"][:2] for one in waiting) == sorted([first, "p1", "p2"])
