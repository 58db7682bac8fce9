"""session/rebase: make a new session of chosen entries, in a chosen order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    InvalidParams,
    PlanStale,
    SummarizerUnavailable,
    Vetoed,
)
from sessiond.methods._shared.common import SessionParams, ask
from sessiond.methods._shared.copies import (
    NOT_WRITTEN,
    CopyResult,
    copy_deps,
    copy_from,
    make_copy,
    require_same_log,
    root_of_copy,
)
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.entries import Compaction
from sessiond.model.ids import EntryId
from sessiond.model.requests import BeforeFork
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.copying.header import Birth
from sessiond.service.copying.rebasing import by_ids, by_indices, rebase
from sessiond.service.copying.source import Source
from sessiond.service.copying.squashing import plan_squash, squashed
from sessiond.service.summaries.runs import Planned


class Squash(Struct, frozen=True, forbid_unknown_fields=True):
    """Summary that the model sees instead of the entries; without one the daemon has one written."""

    summary: str | None = None


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
    summary = None if params.squash is None else params.squash.summary
    if summary is not None and not summary.strip():
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
    squash = params.squash
    if squash is not None and squash.summary is None and not params.dry_run:
        return ask(
            client,
            call,
            params.session_id,
            lambda actor: _have_squashed(client, params, call, actor),
        )
    entry = None
    if squash is not None:
        entry = Compaction(summary=squash.summary or NOT_WRITTEN, first_kept_entry_id=None)

    def look(actor: SessionActor) -> Any:
        source = Source.of(actor)
        birth = _birth(client, params, call, source)

        def lines() -> Iterator[list[bytes]]:
            return rebase(source, _chosen(source, params), entry, birth)

        async def job() -> CopyResult:
            root = await root_of_copy(client, source.opened)
            made = await make_copy(
                client, birth.session_id, lines, dry_run=params.dry_run, root=root
            )
            return CopyResult(made)

        return job

    return copy_from(client, call, params.session_id, look)


def _have_squashed(
    client: Client, params: RebaseParams, call: Call[Client], actor: SessionActor
) -> Any:
    """Have a summary of the chosen entries written, then make the session with it."""
    source = Source.of(actor)
    preset = actor.environment.policies.of(actor.opened).preset
    runs = client.service.runs

    async def plan() -> Planned:
        seqs = await runs.read(_chosen, source, params)
        squash = await runs.read(plan_squash, source, seqs, preset)

        async def commit(summary: str) -> CopyResult:
            require_same_log(actor, source)
            entry = squashed(source, summary, squash.files, preset)
            birth = _birth(client, params, call, source)

            def lines() -> Iterator[list[bytes]]:
                return rebase(source, seqs, entry, birth)

            root = await root_of_copy(client, source.opened)
            made = await make_copy(client, birth.session_id, lines, dry_run=False, root=root)
            return CopyResult(made)

        return squash.wanted, commit

    return runs.have_written(actor, call, plan)


def _birth(client: Client, params: RebaseParams, call: Call[Client], source: Source) -> Birth:
    new_id = client.service.environment.new_session_id()
    return Birth(new_id, copy_deps(client, call, source.opened), linked=params.link == "parent")


def _chosen(source: Source, params: RebaseParams) -> list[int]:
    """Return the chosen entries. Raise EntryNotFound, InvalidParams."""
    if params.indices is not None:
        return by_indices(source, params.indices)
    return by_ids(source, params.entry_ids or ())


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
        PlanStale,
        SummarizerUnavailable,
    ),
)
