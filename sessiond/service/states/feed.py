"""Feed of the state store's changes to the connections that watch.

Changes are hints; the truth is state/get. A hint that finds a connection full is dropped. Once there
is room again, that connection is told that any key may have changed, so no client waits for a lost
hint.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from sessiond.errors import Overloaded
from sessiond.limits import CHANGES_TOLD_MAX, RETRY_AFTER_MS, STATE_NAMESPACES_MAX
from sessiond.model.events import StateChanged
from sessiond.model.ids import is_open_namespace
from sessiond.service.log.events import notification
from sessiond.service.ports import Listener
from sessiond.state.document import Change

_NAME = "state/changed"


class _Watcher(Struct):
    all: bool = False
    namespaces: set[str] = set()
    is_behind: bool = False

    def wants(self, namespace: str) -> bool:
        return self.all or namespace in self.namespaces


class StateFeed:
    """The connections that watch the store, or some of its namespaces."""

    def __init__(self) -> None:
        self.revision = 0
        self._watchers: dict[Listener, _Watcher] = {}

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def add(self, listener: Listener, namespace: str | None) -> None:
        """Tell a connection of changes of a namespace, or of all, from now on. Raises Overloaded."""
        watcher = self._watchers.setdefault(listener, _Watcher())
        if namespace is None:
            watcher.all = True
        elif len(watcher.namespaces) < STATE_NAMESPACES_MAX:
            watcher.namespaces.add(namespace)
        else:
            raise Overloaded(
                "this connection watches as many namespaces as its limit allows",
                limit=STATE_NAMESPACES_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )

    def remove(self, listener: Listener, namespace: str | None) -> None:
        """End a subscription on a namespace; with None end all subscriptions of a connection."""
        watcher = self._watchers.get(listener)
        if watcher is not None and namespace is not None:
            watcher.namespaces.discard(namespace)
        if watcher is not None and (namespace is None or not (watcher.all or watcher.namespaces)):
            del self._watchers[listener]

    def tell(self, namespace: str, changes: Sequence[Change], revision: int) -> None:
        """Tell the watching connections of the changes of one write.

        The daemon's own namespaces concern no connection.
        """
        self.revision = revision
        if not is_open_namespace(namespace):
            return
        watchers = [
            (listener, watcher)
            for listener, watcher in self._watchers.items()
            if watcher.wants(namespace) and not watcher.is_behind
        ]
        if not watchers:
            return
        if len(changes) > CHANGES_TOLD_MAX:
            hints = [StateChanged(namespace, None, revision, "many")]
        else:
            hints = [StateChanged(namespace, one.key, one.revision, one.change) for one in changes]
        bodies = [notification(_NAME, hint) for hint in hints]
        for listener, watcher in watchers:
            if all(listener.offer(listener.encode(body)) for body in bodies):
                listener.flush()
            else:
                watcher.is_behind = True
                listener.start(self._catch_up, listener, watcher)

    async def _catch_up(self, listener: Listener, watcher: _Watcher) -> None:
        await listener.wait_room()
        while self._watchers.get(listener) is watcher:
            body = notification(_NAME, StateChanged(None, None, self.revision, "many"))
            if listener.offer(listener.encode(body)):
                watcher.is_behind = False
                listener.flush()
                return
            await listener.wait_room()
