"""session/artifact: point to an artifact by a name, or remove the name."""

from __future__ import annotations

from typing import Any

from sessiond.methods._shared.state_changes import (
    STATE_ERRORS,
    ChangeParams,
    StateResult,
    one_change,
    submit_change,
)
from sessiond.model.working.entries import ArtifactName, ArtifactPath, ArtifactSet
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.client import Client


class ArtifactParams(ChangeParams, kw_only=True):
    """Name of an artifact and its place; null removes the name."""

    name: ArtifactName
    path: ArtifactPath | None


def handle(client: Client, params: ArtifactParams, call: Call[Client]) -> Any:
    """Put the pointer into the inbox of the session."""
    named = ArtifactSet(params.name, params.path)
    return submit_change(client, call, params, one_change(named))


METHOD = Method(
    name="session/artifact",
    params=ArtifactParams,
    result=StateResult,
    handle=handle,
    access="write",
    errors=STATE_ERRORS,
)
