"""Hints that lists show something else, over any number of connections. Pure.

Law: a hint that may have been missed while there was no connection is made up for by one that
says "many". What is true is what `list` says.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from sessiond_client import wire
from sessiond_client.generated.messages import CatalogChanged, WatchResult
from sessiond_client.stream import Stream

__all__ = ["CatalogChanged", "CatalogFeed"]

_SUBSCRIBE_ID: Final = 1


class CatalogFeed(Stream[CatalogChanged]):
    """The hints that the program has not taken yet."""

    revision: int | None = None
    """The newest one known."""

    def _begin(self) -> None:
        self.outgoing.put(wire.request(_SUBSCRIBE_ID, "catalog/subscribe", {}))

    def _result(self, call_id: int, result: Raw) -> None:  # noqa: ARG002 - there is one request
        revision = wire.read(WatchResult, result).revision
        if self.revision is not None and revision != self.revision:
            self.ready.append(CatalogChanged(revision))
        self.revision = revision
        self.is_started = True

    def _notification(self, method: str, params: Raw, size: int) -> None:  # noqa: ARG002 - nothing is held
        if method == "catalog/changed":
            changed = wire.read(CatalogChanged, params)
            self.revision = changed.revision
            self.ready.append(changed)
