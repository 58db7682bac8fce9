"""Who may call what, now: by the connection's access, and not once the daemon stops."""

from __future__ import annotations

from typing import Any, Final

from sessiond.errors import Draining, PermissionDenied
from sessiond.limits import RETRY_AFTER_MS
from sessiond.methods.common import Client, Method
from sessiond.service.client import Access

__all__ = ["allow", "require_access"]

_RANK: Final = {"status": 0, "read": 1, "write": 2}


def allow(client: Client, method: Method[Client, Any]) -> None:
    """Raises PermissionDenied or Draining for what this client may not ask now."""
    if client.access != "write":
        require_access(client, method.access)
    if client.service.draining and method.name.startswith("session/"):
        raise Draining("the daemon is stopping", retry_after_ms=RETRY_AFTER_MS)


def require_access(client: Client, need: Access) -> None:
    """Raises PermissionDenied; for a method that needs more with certain parameters."""
    if _RANK[client.access] < _RANK[need]:
        raise PermissionDenied("this connection's access does not allow it", need=need)
