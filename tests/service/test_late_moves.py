"""Moves whose calls end without an answer, and are carried out by the server while the move is repeated."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sessiond.errors import StorageError
from sessiond.testing.database import MemoryConnection, MemoryDatabase
from sessiond.testing.wire import Wire
from tests.kit.calls import call
from tests.service.one_database.connections import OUT_OF_REACH
from tests.service.test_moving import PLACED, Town, at, store_one


class Late(MemoryConnection):
    """A connection whose first call of a method is carried out right before the second one."""

    def __init__(self, place: MemoryDatabase, method: str) -> None:
        super().__init__(place)
        self.method = method
        self.late: list[partial[Any]] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name != super().__getattribute__("method"):
            return found

        def call(*arguments: Any, **members: Any) -> Any:
            if not self.late:
                self.late.append(partial(found, *arguments, **members))
                raise OUT_OF_REACH
            for one in self.late:
                one()
            return found(*arguments, **members)

        return call


async def fill(wire: Wire) -> None:
    await store_one(wire)
    await wire.call("state/set", namespace="notes", key="a", value=1)


async def shown(wire: Wire) -> list[Any]:
    ids = await call(wire, "session/entries", "entries[].entry.id", session_id=PLACED)
    return [*ids, await call(wire, "state/get", "value", namespace="notes", key="a")]


@pytest.mark.parametrize(
    ("method", "back"),
    [("create", False), ("put_document", False), ("delete", True), ("put_document", True)],
)
def test_what_is_carried_out_late_is_lost_in_neither_place(
    town: Town, method: str, *, back: bool
) -> None:
    at(town, fill)
    if back:
        town.move()
    whole = town.database
    town.database = Late(town.place, method)
    refused = [error for error in town.move(back=back).values() if error is not None]
    assert [type(error) for error in refused] == [StorageError]
    town.move(back=back)
    town.database.close()
    town.database = whole
    assert set(town.move(back=back).values()) <= {None}
    assert at(town, shown, on_database=not back) == ["e-1", 1]
