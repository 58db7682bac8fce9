"""Feed of catalog changes to the connections that watch.

Changes are hints; the truth is session/list. A hint that finds a connection full is dropped. Once
there is room again, that connection is told that much has changed, so no client waits for a lost
hint.
"""

from __future__ import annotations

from collections.abc import Sequence

from sessiond.limits import CHANGES_TOLD_MAX
from sessiond.model.events import CatalogChange, CatalogChanged
from sessiond.service.log.events import notification
from sessiond.service.ports import Listener


class Feed:
    """The connections that watch the catalog."""

    def __init__(self) -> None:
        # Each connection, and True while a hint was dropped and the connection waits for room.
        self._watchers: dict[Listener, bool] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, listener: Listener) -> None:
        """Tell this connection of changes from now on."""
        self._watchers.setdefault(listener, False)

    def remove(self, listener: Listener) -> None:
        """Stop telling this connection."""
        self._watchers.pop(listener, None)

    def tell(self, revision: int, changes: Sequence[tuple[str, CatalogChange]]) -> None:
        """Tell the watching connections of the changes of one transaction."""
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
