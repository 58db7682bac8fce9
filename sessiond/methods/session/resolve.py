"""session/resolve: find the session named by an id, the beginning of an id, or a title."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sessiond.catalog.finding import find_by_ref
from sessiond.errors import AmbiguousRef, SessionNotFound
from sessiond.limits import MATCHES_SHOWN_MAX
from sessiond.methods._shared.common import ask, raw
from sessiond.methods.session.get import SessionResult
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import is_session_id
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.rpc.params import Params
from sessiond.service.client import Client
from sessiond.service.log.out_of_sight import require_current_lists


class ResolveParams(Params):
    """Text that a person wrote for a session."""

    ref: Annotated[str, Meta(min_length=1, max_length=1024)]


def handle(client: Client, params: ResolveParams, call: Call[Client]) -> Any:
    """Query the catalog in a worker thread; only an unlisted file is opened."""
    client.service.look(call, lambda: _resolve(client, params.ref, call))
    return DEFERRED


async def _resolve(client: Client, ref: str, call: Call[Client]) -> Any:
    found = await client.service.live_catalog.ask(
        lambda catalog: catalog.ask(
            lambda connection: find_by_ref(connection, ref, MATCHES_SHOWN_MAX + 1)
        ),
        call,
    )
    if not found and is_session_id(ref) and await client.service.is_known(ref):
        # A file outside the profile that was only read is in no list; its id still finds it.
        return ask(client, call, ref, lambda actor: SessionResult(actor.opened.whole()))
    if len(found) != 1:
        # Another daemon may have given a session this title, or another one.
        require_current_lists(call)
    if not found:
        raise SessionNotFound("no session has this text as id, part of an id, or title", ref=ref)
    if len(found) > 1:
        raise AmbiguousRef(
            "more than one session matches: send the id of one",
            matches=[msgspec.to_builtins(one.brief) for one in found[:MATCHES_SHOWN_MAX]],
        )
    return raw((b'{"session":', found[0].info, b"}"))


METHOD = Method(
    name="session/resolve",
    params=ResolveParams,
    result=SessionResult,
    handle=handle,
    access="read",
    errors=(
        SessionNotFound,
        AmbiguousRef,
    ),
)
