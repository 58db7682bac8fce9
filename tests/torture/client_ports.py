"""Our own Python clients as actors: they reconnect and repeat by themselves.

Law: what the library does in between is not looked at; what it gives its caller is
what the checker holds against the file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from sessiond_client import (
    Client,
    ConnectionLost,
    EntryEvent,
    Event,
    Flushed,
    Lagged,
    Replaced,
    RpcError,
    Signal,
    Synced,
    Timeout,
)
from sessiond_client.blocking import BlockingClient
from tests.torture import records
from tests.torture.payloads import digest
from tests.torture.raw_port import Outcome
from tests.torture.records import Act, Answered, Asked, Connected, Log, Lost, Refused, Trouble, now
from tests.torture.sights import sight_of
from tests.torture.spelling import wire_params

__all__ = ["PATIENT", "BlockingPort", "TaskPort", "write_down"]

PATIENT: Final[dict[str, Any]] = {"timeout": 60.0, "connect_timeout": 60.0, "start": True}


class _Port:
    """The common part of the two clients' ports: the records around a call."""

    kind: str

    def __init__(self, name: str, log: Log) -> None:
        self._conn = name
        self._log = log
        self._last = 0
        log.add(Connected(now(), name, self.kind))

    def _ask(self, act: Act) -> int:
        self._last += 1
        self._log.add(Asked(now(), self._conn, self._last, act))
        return self._last

    def _settle(self, n: int, act: Act, outcome: bytes | Exception) -> Outcome:
        moment, conn = now(), self._conn
        settled: Outcome
        match outcome:
            case bytes():
                settled = Answered(moment, conn, n, sight_of(act.method, outcome))
            case RpcError():
                settled = Refused(moment, conn, n, outcome.kind, outcome.data)
            case ConnectionLost(outcome_unknown=False):
                settled = Refused(moment, conn, n, "not_sent")
            case ConnectionLost():
                settled = Lost(moment, conn, n)
            case Timeout():
                self._log.add(Trouble(moment, conn, f"{act.method}: no answer in time"))
                settled = Lost(moment, conn, n)
            case _:
                raise outcome
        self._log.add(settled)
        return settled


class BlockingPort(_Port):
    """Calls of a blocking client, one after the other."""

    kind = "blocking"

    def __init__(self, name: str, log: Log, client: BlockingClient) -> None:
        super().__init__(name, log)
        self._client = client

    def exchange(self, acts: list[Act]) -> list[tuple[Act, Outcome]]:
        """Each act with its outcome."""
        return [(act, self._one(act)) for act in acts]

    def _one(self, act: Act) -> Outcome:
        n = self._ask(act)
        outcome: bytes | Exception
        try:
            outcome = bytes(self._client.call_raw(act.method, **wire_params(act)))
        except (RpcError, ConnectionLost, Timeout) as error:
            outcome = error
        return self._settle(n, act, outcome)


class TaskPort(_Port):
    """Calls of one task; other tasks of the process share the connection."""

    kind = "tasks"

    def __init__(self, name: str, log: Log, client: Client) -> None:
        super().__init__(name, log)
        self._call: Callable[..., Awaitable[Any]] = client.call_raw

    async def exchange(self, acts: list[Act]) -> list[tuple[Act, Outcome]]:
        """Each act with its outcome."""
        return [(act, await self._one(act)) for act in acts]

    async def _one(self, act: Act) -> Outcome:
        n = self._ask(act)
        outcome: bytes | Exception
        try:
            outcome = bytes(await self._call(act.method, **wire_params(act)))
        except (RpcError, ConnectionLost, Timeout) as error:
            outcome = error
        return self._settle(n, act, outcome)


def write_down(log: Log, conn: str, session: str, event: Event) -> None:
    """Record an event of a subscription of the client library."""
    moment = now()
    match event:
        case EntryEvent():
            log.add(
                records.Seen(
                    moment,
                    conn,
                    session,
                    event.seq,
                    event.name.id,
                    digest(event.raw),
                    event.epoch,
                    event.head if isinstance(event.head, str) else None,
                    event.leaf_id
                    if event.leaf_id is None or isinstance(event.leaf_id, str)
                    else "",
                    isinstance(event.origin, dict) and bool(event.origin.get("external")),
                )
            )
        case Synced():
            log.add(records.Synced(moment, conn, session, event.seq))
        case Flushed():
            log.add(records.Flushed(moment, conn, session, event.seq))
        case Lagged():
            log.add(records.Lagged(moment, conn, session, event.seq, event.dropped_signals))
        case Replaced():
            log.add(Trouble(moment, conn, f"{session} was replaced: {event.reason}"))
        case Signal():
            log.add(records.Heard(moment, conn, session, event.data["mark"]))
        case _:
            pass
