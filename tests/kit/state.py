"""Calls of the state store that tests make again and again, on one namespace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from sessiond.testing.daemon import NOW, Wire
from tests.kit.house import House

NS: Final = "settings"


async def put(wire: Wire, key: str, value: Any, **more: Any) -> int:
    """Store a value in the namespace of the test; return its revision."""
    answer = await wire.call("state/set", namespace=NS, key=key, value=value, **more)
    revision: int = answer["revision"]
    return revision


async def value_of(wire: Wire, key: str, namespace: str = NS, *, store: str = "state") -> Any:
    """Return the value of a key, or None if there is none; `store` may also be that of secrets."""
    return (await wire.call(f"{store}/get", namespace=namespace, key=key))["value"]


async def values(wire: Wire, namespace: str = NS, **more: Any) -> dict[str, Any]:
    """Return the values of a namespace by key."""
    found = (await wire.call("state/all", namespace=namespace, **more))["values"]
    return {row["key"]: row["value"] for row in found}


def document_path(house: House, namespace: str = NS) -> Path:
    """Return the path of the file of a namespace."""
    return house.layout.state / f"{namespace}.json"


def put_document(house: House, content: bytes, namespace: str = NS) -> Path:
    """Put the file of a namespace on the disk in memory."""
    for folder in (house.home / "profiles", house.layout.root, house.layout.state):
        house.disk.make_folder(folder)
        house.disk.fsync_folder(folder.parent)
    path = document_path(house, namespace)
    house.disk.put(path, content)
    return path


def a_document(namespace: str = NS, **more: Any) -> bytes:
    """Return the file of a namespace that has the value 1 under the key `a`."""
    record = {"revision": 3, "created_at": NOW, "updated_at": NOW, "value": 1}
    whole: dict[str, Any] = {
        "type": "sessiond_state",
        "version": 1,
        "namespace": namespace,
        "revision": 3,
        "records": {"a": record},
    }
    return json.dumps(whole | more).encode()


class SetClock:
    """A clock of a house that a test sets, in minutes from the time where all tests begin."""

    def __init__(self, house: House) -> None:
        self.now = NOW
        house.environment = msgspec.structs.replace(house.environment, now=lambda: self.now)

    def set(self, minutes: int) -> None:
        """Set the clock."""
        hours, minutes = divmod(10 * 60 + 30 + minutes, 60)
        self.now = f"2026-01-15T{hours:02}:{minutes:02}:00.000Z"
