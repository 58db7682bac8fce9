"""Who watches the catalog, and what they are told: hints. The truth is session/list.

A hint that finds a connection full is dropped; once there is room again that
connection is told that much has changed, so nobody waits for a hint that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessiond.limits import CHANGES_TOLD_MAX
from sessiond.model.events import CatalogChange, CatalogChanged
from sessiond.service.log.events import notification
from sessiond.service.ports import Listener

__all__ = ["Feed"]


class Feed:
    """The connections that watch the catalog."""

    def __init__(self) -> None:
        # Whether each is behind: it is told of the next change as soon as there is room.
        self._watchers: dict[Listener, bool] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, listener: Listener) -> None:
        """Tell this connection from now on."""
        self._watchers.setdefault(listener, False)

    def remove(self, listener: Listener) -> None:
        """Tell it no more."""
        self._watchers.pop(listener, None)

    def tell(self, revision: int, changes: Sequence[tuple[str, CatalogChange]]) -> None:
        """What one transaction has changed."""
        if not self._watchers or not changes:
            return
        if len(changes) > CHANGES_TOLD_MAX:
            hints = [CatalogChanged(revision, None, "many")]
        else:
            hints = [CatalogChanged(revision, *change) for change in changes]
        bodies = [notification("catalog/changed", hint) for hint in hints]
        for listener, behind in list(self._watchers.items()):
            if behind:
                continue
            if all(listener.offer(listener.encode(body)) for body in bodies):
                listener.flush()
            else:
                self._watchers[listener] = True
                listener.start(self._catch_up, listener, revision)

    async def _catch_up(self, listener: Listener, revision: int) -> None:
        body = notification("catalog/changed", CatalogChanged(revision, None, "many"))
        await listener.wait_room()
        while listener in self._watchers:
            if listener.offer(listener.encode(body)):
                self._watchers[listener] = False
                listener.flush()
                return
            await listener.wait_room()
