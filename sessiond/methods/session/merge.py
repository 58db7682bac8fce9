"""session/merge: add the turn that merges two sessions, here or in a new session."""

from __future__ import annotations

from typing import Any, Literal

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import (
    EntryInvalid,
    InvalidParams,
    Vetoed,
)
from sessiond.methods._shared.common import Call, Client, Method
from sessiond.methods._shared.copies import CopyResult, ask_both, copy_deps, make_copy, require_two
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.ids import MAIN, SessionId
from sessiond.model.requests import BeforeFork
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.copying.header import Birth
from sessiond.service.copying.merging import merge_into_new, merged_here, turn
from sessiond.service.copying.source import Source
from sessiond.service.files.dry_run import rehearse
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.preconditions import require_expected
from sessiond.session.receipts import Receipt, StoredEntry

__all__ = ["METHOD"]


class MergeParams(MoveParams, kw_only=True):
    """Other session, text of the merge, and where the turn goes."""

    other_session_id: SessionId
    text: str
    into: Literal["this", "new"] = "this"
    dry_run: bool = False


class MergedHere(Struct, frozen=True):
    """Entry that holds the text, the last entry of the turn."""

    entry: StoredEntry
    leaf_id: str | None
    seq: int


def handle(client: Client, params: MergeParams, call: Call[Client]) -> Any:
    """Append the turn in its place in the inbox, or make a session of it in a worker thread.

    A merge into a new session runs the hooks first.
    """
    if not params.text.strip():
        raise EntryInvalid("text is empty", path="text")
    require_two(params.session_id, params.other_session_id)
    if params.into == "new":
        _require_nothing_of_here(params)
        if not params.dry_run:
            return hooked(
                client,
                call,
                params.session_id,
                "before_fork",
                about=_about,
                go_on=lambda _supplied: _merge(client, params, call),
            )
    return _merge(client, params, call)


def _about(actor: SessionActor) -> BeforeFork:
    """Return the hook's notice for a merge into a new session: the leaf of main."""
    source = Source.of(actor)
    return BeforeFork(actor.session_id, source.session.id_of(source.leaf))


def _merge(client: Client, params: MergeParams, call: Call[Client]) -> Any:
    def look(actor: SessionActor, other: SessionActor) -> Any:
        if params.into == "new":
            return _make(client, params, call, actor, other)
        if params.dry_run:
            return _rehearse(client, params, call, actor, other)
        request = AppendRequest(
            session_id=params.session_id,
            entries=turn(Source.of(actor), Source.of(other), params.text),
            head=params.head,
            expected=params.expected,
            lease_id=params.lease_id,
        )
        size = len(params.text.encode())
        return actor.submit(
            Command(call, _merged, lambda draft: append(draft, request), entries=3, size=size)
        )

    return ask_both(client, call, params.session_id, params.other_session_id, look)


def _require_nothing_of_here(params: MergeParams) -> None:
    """Raise InvalidParams for a guard of this session, which a merge into a new one leaves alone."""
    given = (
        ("head", params.head != MAIN),
        ("expected", params.expected is not None),
        ("lease_id", params.lease_id is not None),
    )
    for name, is_given in given:
        if is_given:
            raise InvalidParams(
                f"a merge into a new session moves no head of this one: leave {name} out", path=name
            )


def _merged(receipt: Receipt, _durability: Any) -> MergedHere:
    return MergedHere(receipt.entries[-1], receipt.leaf_id, receipt.seq)


def _rehearse(
    client: Client,
    params: MergeParams,
    call: Call[Client],
    actor: SessionActor,
    other: SessionActor,
) -> Any:
    """Return what the session would be, after the checks of a real merge."""
    deps = copy_deps(client, call)

    def check(draft: Draft) -> None:
        draft.require_writable()
        draft.require_lease(params.head, params.lease_id)
        draft.leaf(params.head)
        require_expected(draft, params.head, params.expected)

    def look(_receipt: Any, _durability: Any) -> Any:
        here = Source.of(actor, params.head)
        entries = turn(here, Source.of(other), params.text)

        def work() -> CopyResult:
            chunks = merged_here(here, params.head, entries, deps)
            return CopyResult(rehearse(params.session_id, chunks, actor.opened.epoch))

        return actor.later(call, lambda: to_thread.run_sync(work))

    return actor.submit(Command(call, look, check, entries=0))


def _make(
    client: Client,
    params: MergeParams,
    call: Call[Client],
    actor: SessionActor,
    other: SessionActor,
) -> Any:
    """Make a session of the turn, from the current state of both sessions."""
    here, there = Source.of(actor), Source.of(other)
    birth = Birth(client.service.environment.new_session_id(), copy_deps(client, call))

    async def job() -> CopyResult:
        made = await make_copy(
            client,
            birth.session_id,
            lambda: merge_into_new(here, there, params.text, birth),
            dry_run=params.dry_run,
        )
        return CopyResult(made)

    return actor.later(call, job)


METHOD = Method(
    name="session/merge",
    params=MergeParams,
    result=MergedHere | CopyResult,
    handle=handle,
    access="write",
    errors=(*MOVE_ERRORS, EntryInvalid, Vetoed),
)
