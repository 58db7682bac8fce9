"""The state that a connection carries: leases end with it, presence is announced on the next one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sessiond_client.errors import SessiondClientError
from sessiond_client.lease_state import LeaseState
from sessiond_client.requests import Request

__all__ = ["ConnectionState"]


class ConnectionState:
    """Leases and presence of one client, over any number of connections."""

    def __init__(self) -> None:
        self._present: dict[object, Mapping[str, object]] = {}
        self._tenures: set[LeaseState] = set()

    def begin(self, tenure: LeaseState) -> None:
        """Count a lease among those that are lost with the connection."""
        self._tenures.add(tenure)

    def end(self, tenure: LeaseState) -> None:
        """Forget a lease: its end no longer matters."""
        self._tenures.discard(tenure)

    def done(self, request: Request) -> None:
        """Note that the daemon did what was asked."""
        params = request.params
        session_id = params.get("session_id")
        if request.method == "session/presence" and "state" in params:
            if params["state"] is None:
                self._present.pop(session_id, None)
            else:
                self._present[session_id] = params
        elif request.method in {"session/close", "session/delete"}:
            # With these it is over at the daemon, too.
            self._present.pop(session_id, None)

    def again(self) -> Iterator[Mapping[str, object]]:
        """Yield the params of every `session/presence` to be said on a new connection."""
        yield from self._present.values()

    def lost(self, error: SessiondClientError) -> None:
        """Drop the leases, which are gone with the connection."""
        tenures, self._tenures = self._tenures, set()
        for tenure in tenures:
            tenure.lose(error)
