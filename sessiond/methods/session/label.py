"""session/label: label an entry, or clear its label."""

from __future__ import annotations

from typing import Any

from sessiond.errors import EntryNotFound, SessionArchived, SessionReadOnly
from sessiond.methods._shared.common import SessionParams, submit
from sessiond.model.ids import EntryId
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client
from sessiond.session.moves import Labelled, label


class LabelParams(SessionParams):
    """Entry and its label; null and "" clear the label."""

    entry_id: EntryId
    label: str | None


def handle(client: Client, params: LabelParams, call: Call[Client]) -> Any:
    """Put the label into the inbox."""
    return submit(
        client,
        call,
        params.session_id,
        lambda draft: label(draft, params.entry_id, params.label),
    )


METHOD = Method(
    name="session/label",
    params=LabelParams,
    result=Labelled,
    handle=handle,
    access="write",
    errors=(
        SessionArchived,
        SessionReadOnly,
        EntryNotFound,
    ),
)
