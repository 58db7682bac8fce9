"""session/repair: remove the lines that do not parse from a session's file."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from anyio import to_thread

from sessiond.errors import SessiondError
from sessiond.methods._shared.access import require_access
from sessiond.methods._shared.common import SessionParams
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.internal_commands import look_at_the_file
from sessiond.service.client import Client
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.checks import Repair


class RepairParams(SessionParams):
    """Choice between a dry run, the default, and the repair."""

    dry_run: bool = True


def handle(client: Client, params: RepairParams, call: Call[Client]) -> Any:
    """Verify first: a session without damage stays open and unchanged."""
    if not params.dry_run:
        require_access(client, "write")
    client.service.work(call, lambda: _repair(client, params, call))
    return DEFERRED


async def _repair(client: Client, params: RepairParams, call: Call[Client]) -> Repair:
    service, session_id = client.service, params.session_id
    opened = await _opened(client, session_id)
    plan = await to_thread.run_sync(
        lambda: service.store.plan_repair(
            session_id, opened, dry_run=params.dry_run, progress=call.progress
        )
    )
    if params.dry_run or plan.reason is not None:
        return plan

    def repair(_opened: OpenSession | None) -> Repair:
        return service.store.repair(session_id)

    done: Repair = await service.registry.retire(session_id, "repaired", repair).outcome()
    return done


async def _opened(client: Client, session_id: str) -> OpenSession | None:
    """Return the open session, with the lines that are in its store now, or None.

    A session that cannot be opened is examined too.
    """
    actor = client.service.find(session_id)
    if actor is not None:
        with suppress(SessiondError):
            await actor.ready()
            await look_at_the_file(actor)
            return actor.opened
    return None


METHOD = Method(
    name="session/repair", params=RepairParams, result=Repair, handle=handle, access="read"
)
