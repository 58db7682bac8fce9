"""retention/run: move old sessions to the trash."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from sessiond.methods._shared.access import require_access
from sessiond.model.deferred import DEFERRED
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.retention import Failed, retain


class RetentionParams(Params):
    """Age limit; with `dry_run` the answer only names the sessions that would go."""

    max_age_hours: Annotated[float, Meta(gt=0)]
    dry_run: bool = True


class RetentionResult(Struct, frozen=True):
    """Sessions that went, or would go, and sessions that failed to go."""

    sessions: list[SessionInfo]
    failed: list[Failed]
    dry_run: bool


def handle(client: Client, params: RetentionParams, call: Call[Client]) -> Any:
    """List and move in worker threads, one session after another."""
    if not params.dry_run:
        require_access(client, "write")
    client.service.work(
        call,
        lambda: retain(client.service, params.max_age_hours, dry_run=params.dry_run, asker=call),
    )
    return DEFERRED


METHOD = Method(
    name="retention/run",
    params=RetentionParams,
    result=RetentionResult,
    handle=handle,
    access="read",
)
