"""retention/run: old sessions into the trash."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from sessiond.methods.access import require_access
from sessiond.methods.common import DEFERRED, Call, Client, Method, Params
from sessiond.service.retention import Failed, retain
from sessiond.service.session_info import SessionInfo

__all__ = ["METHOD"]


class RetentionParams(Params):
    """How old, and whether to do it; `dry_run` only says what would go."""

    max_age_hours: Annotated[float, Meta(gt=0)]
    dry_run: bool = True


class RetentionResult(Struct, frozen=True):
    """The sessions that went, or would; those that should have and did not."""

    sessions: list[SessionInfo]
    failed: list[Failed]
    dry_run: bool


def handle(client: Client, params: RetentionParams, call: Call[Client]) -> Any:
    """Look and move in worker threads, one session after another."""
    if not params.dry_run:
        require_access(client, "write")
    client.service.work(
        call,
        lambda: retain(
            client.service, params.max_age_hours, dry_run=params.dry_run, progress=call.progress
        ),
    )
    return DEFERRED


METHOD = Method(
    name="retention/run",
    params=RetentionParams,
    result=RetentionResult,
    handle=handle,
    access="read",
)
