"""Moves whose calls end without an answer, and are carried out by the server while the move is repeated."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from sessiond.errors import StorageError
from sessiond.testing.database import MemoryConnection, MemoryDatabase
from tests.kit.calls import call
from tests.service.one_database.connections import OUT_OF_REACH
from tests.service.test_moving import PLACED, Town, at, store_one

VALUE = {"namespace": "notes", "key": "a"}


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


@pytest.mark.parametrize(
    ("method", "back"),
    [("create", False), ("put_document", False), ("delete", True), ("put_document", True)],
)
def test_what_is_carried_out_late_is_lost_in_neither_place(
    town: Town, method: str, *, back: bool
) -> None:
    at(town, store_one)
    at(town, lambda wire: wire.call("state/set", **VALUE, value=1))
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
    ids = at(
        town,
        lambda wire: call(wire, "session/entries", "entries[].entry.id", session_id=PLACED),
        on_database=not back,
    )
    value = at(town, lambda wire: call(wire, "state/get", "value", **VALUE), on_database=not back)
    assert (ids, value) == (["e-1"], 1)
