"""Values that two daemons have changed around an interrupted move: both stay until an operator decides."""

from __future__ import annotations

from typing import Any

import pytest

from sessiond.errors import StorageError
from sessiond.service.database.moving.joining import Keep
from sessiond.service.queues import QUEUES
from sessiond.state.codec import SECRETS, STATE
from sessiond.testing.database import MemoryConnection
from sessiond.testing.wire import Wire
from tests.service.test_moving import Town, ask, at, interrupt
from tests.service.test_moving_documents import HERE, queue

# What the source and the target say, beside a key that is only there.
SOURCE, TARGET = "value-of-the-source", "value-of-the-target"
NAMES = {"state": "notes", "secret": "keys"}
KEYS: dict[str, dict[str, Any]] = {
    store: {"namespace": name, "key": "a"} for store, name in NAMES.items()
}
KINDS = {"state": STATE, "secret": SECRETS}


class EndingBefore(MemoryConnection):
    """A connection that ends right before a document is replaced, as a killed process does."""

    def put_document(self, kind: str, namespace: str, at: bytes, token: bytes, data: bytes) -> bool:
        raise KeyboardInterrupt


def differ(town: Town, store: str, *, back: bool) -> None:
    """Interrupt a move, and change the value in the database, which is the source of a move back."""
    put, place = f"{store}/set", KEYS[store]
    ask(town, put, value="value-of-before" if back else SOURCE, **place)
    if back:
        town.move()
        # The file of the namespace is there, and the database has its document.
        town.move_until_killed(EndingBefore(town.place), back=True)
        # The key of the secrets is that of the profile.
        ask(town, put, value=SOURCE, on_database=True, **place)
        # The file of the interrupted move is used, too.
        ask(town, put, value=TARGET, **place)
    else:
        interrupt(town, "put_document")
        ask(town, put, value=TARGET, on_database=True, **place)


def documents(town: Town, store: str) -> tuple[bytes, bytes]:
    """Return the document of the profile, and that of the database."""
    here = town.document(KINDS[store], NAMES[store])
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
    get, place = f"{store}/get", KEYS[store]
    assert ask(town, get, "value", on_database=back, **place) == SOURCE
    assert ask(town, get, "value", on_database=not back, **place) == TARGET


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
    assert ask(town, f"{store}/get", "value", on_database=not back, **KEYS[store]) == kept
    aside = [path.read_bytes() for path in town.layout.root.rglob("*.aside-*")]
    assert aside == [target if keep == "source" else source]
    assert NAMES[store] not in town.move(back=back)


def test_an_operator_who_decides_changes_nothing_where_nothing_differs(town: Town) -> None:
    ask(town, "state/set", value=SOURCE, **KEYS["state"])
    interrupt(town, "put_document")
    assert set(town.move(keep="target").values()) == {None}
    assert ask(town, "state/get", "value", on_database=True, **KEYS["state"]) == SOURCE
    assert list(town.layout.root.rglob("*.aside-*")) == []


def test_values_that_joined_a_namespace_without_values_are_no_other_values(town: Town) -> None:
    async def forget(wire: Wire) -> None:
        await wire.call("state/set", value=TARGET, **KEYS["state"])
        await wire.call("state/delete", **KEYS["state"])

    at(town, forget, on_database=True)
    ask(town, "state/set", value=SOURCE, **KEYS["state"])
    interrupt(town, "put_document")
    assert set(town.move().values()) == {None}
    assert ask(town, "state/get", "value", on_database=True, **KEYS["state"]) == SOURCE


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

    said = ask(town, "session/queue", "waiting[].data", session_id=HERE, on_database=True)
    first = "p0" if keep == "source" else "q0"
    assert sorted(one[:2] for one in said) == sorted([first, "p1", "p2"])
