"""session/reset: put a head before the first entry."""

from __future__ import annotations

from typing import Any

from sessiond.methods.common import Call, Client, Method, SessionParams, submit
from sessiond.model.ids import MAIN, HeadName
from sessiond.session.append import Expected
from sessiond.session.moves import Moved, reset

__all__ = ["METHOD"]


class ResetParams(SessionParams):
    """Which head, under which condition."""

    head: HeadName = MAIN
    expected: Expected | None = None


def handle(client: Client, params: ResetParams, call: Call[Client]) -> Any:
    """Put the move in line."""
    return submit(
        client,
        call,
        params.session_id,
        lambda draft: reset(draft, params.head, params.expected),
    )


METHOD = Method(
    name="session/reset", params=ResetParams, result=Moved, handle=handle, access="write"
)
