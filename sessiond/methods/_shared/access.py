"""Checks whether a client may call a method now: the connection's access, and a daemon that stops."""

from __future__ import annotations

from typing import Any, Final

from sessiond.errors import Draining, PermissionDenied
from sessiond.limits import RETRY_AFTER_MS
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Access, Client

_REFUSED_WHILE_DRAINING: Final = ("session/", "state/", "secret/")
_RANK: Final = {"status": 0, "read": 1, "write": 2}


def allow(client: Client, method: Method[Client, Any]) -> None:
    """Raise PermissionDenied or Draining for a method that this client may not call now."""
    if client.access != "write":
        require_access(client, method.access)
    if client.service.registry.draining and method.name.startswith(_REFUSED_WHILE_DRAINING):
        raise Draining("the daemon is stopping", retry_after_ms=RETRY_AFTER_MS)


def require_access(client: Client, need: Access) -> None:
    """Raise PermissionDenied if the connection's access is below `need`.

    Methods call this for parameters that need more access than the method itself.
    """
    if _RANK[client.access] < _RANK[need]:
        raise PermissionDenied("this connection's access does not allow it", need=need)
