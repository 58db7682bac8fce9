"""session/rebase: make a new session of chosen entries, in a chosen order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from sessiond.errors import EntryInvalid, EntryNotFound, InvalidParams, Vetoed
from sessiond.methods._shared.common import Call, Client, Method, SessionParams
from sessiond.methods._shared.copies import CopyResult, copy_deps, copy_from, make_copy
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.ids import EntryId
from sessiond.model.requests import BeforeFork
from sessiond.service.actor.actor import SessionActor
from sessiond.service.copying.header import Birth
from sessiond.service.copying.rebasing import by_ids, by_indices, rebase
from sessiond.service.copying.source import Source

__all__ = ["METHOD"]


class Squash(Struct, frozen=True, forbid_unknown_fields=True):
    """Summary that the model sees instead of the entries."""

    summary: str


class RebaseParams(SessionParams):
    """Entries by id, or messages of main's path by index; one of the two."""

    entry_ids: list[EntryId] | None = None
    indices: list[int] | None = None
    squash: Squash | None = None
    link: Literal["parent", "none"] = "parent"
    dry_run: bool = False


def handle(client: Client, params: RebaseParams, call: Call[Client]) -> Any:
    """Run the hooks, then copy the current state in a worker thread."""
    if (params.entry_ids is None) == (params.indices is None):
        raise InvalidParams("send either entry_ids or indices", path="entry_ids")
    if params.squash is not None and not params.squash.summary.strip():
        raise EntryInvalid("summary is empty", path="squash.summary")
    if params.dry_run:
        return _copy(client, params, call)
    return hooked(
        client,
        call,
        params.session_id,
        "before_fork",
        # Chosen entries have no common leaf, so the notice names none.
        about=lambda actor: BeforeFork(actor.session_id, None),
        go_on=lambda _supplied: _copy(client, params, call),
    )


def _copy(client: Client, params: RebaseParams, call: Call[Client]) -> Any:
    environment = client.service.environment

    def look(actor: SessionActor) -> Any:
        source = Source.of(actor)
        linked = params.link == "parent"
        birth = Birth(environment.new_session_id(), copy_deps(client, call), linked=linked)
        summary = None if params.squash is None else params.squash.summary

        def lines() -> Iterator[list[bytes]]:
            if params.indices is not None:
                seqs = by_indices(source, params.indices)
            else:
                seqs = by_ids(source, params.entry_ids or ())
            return rebase(source, seqs, summary, birth)

        async def job() -> CopyResult:
            made = await make_copy(client, birth.session_id, lines, dry_run=params.dry_run)
            return CopyResult(made)

        return job

    return copy_from(client, call, params.session_id, look)


METHOD = Method(
    name="session/rebase",
    params=RebaseParams,
    result=CopyResult,
    handle=handle,
    access="write",
    errors=(
        EntryNotFound,
        EntryInvalid,
        Vetoed,
    ),
)
