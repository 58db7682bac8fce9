"""session/merge: add the turn that merges two sessions, here or in a new session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from anyio import to_thread
from msgspec import Meta, Struct

from sessiond.errors import (
    EntryInvalid,
    IdempotencyConflict,
    InvalidParams,
    PlanStale,
    SummarizerUnavailable,
    Vetoed,
)
from sessiond.methods._shared.copies import (
    NOT_WRITTEN,
    CopyResult,
    ask_both,
    copy_deps,
    make_copy,
    require_same_log,
    require_two,
    root_of_copy,
)
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.methods._shared.with_hooks import hooked
from sessiond.model.entries import Entry
from sessiond.model.ids import MAIN, SessionId, derive_entry_ids
from sessiond.model.requests import BeforeFork
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.actor.internal_commands import submit_and_wait
from sessiond.service.client import Client
from sessiond.service.copying.header import Birth
from sessiond.service.copying.merging import (
    TURN_ENTRIES_MAX,
    MergedSession,
    merge_into_new,
    merge_wanted,
    merged_here,
    turn,
)
from sessiond.service.copying.source import Source
from sessiond.service.sources.dry_run import rehearse
from sessiond.service.summaries.runs import Planned
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.draft import Draft
from sessiond.session.index import Session
from sessiond.session.preconditions import require_grown, require_may_append
from sessiond.session.receipts import Receipt, StoredEntry
from sessiond.session.retries import earlier_merge

_Both = tuple[Source, Source]
"""Session of the call and the other session, as they were when the text was planned."""


class MergeParams(MoveParams, kw_only=True):
    """Other session, text of the merge, and where the turn goes.

    Without a text the daemon has one written by the prompt of session/plan_merge.
    """

    other_session_id: SessionId
    text: str | None = None
    into: Literal["this", "new"] = "this"
    dry_run: bool = False
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class MergedHere(Struct, frozen=True):
    """Entry that holds the text, the last entry of the turn."""

    entry: StoredEntry
    leaf_id: str | None
    seq: int


class _Merge(NamedTuple):
    """Call, with its client and parameters."""

    client: Client
    params: MergeParams
    call: Call[Client]

    @property
    def text(self) -> str:
        """Text that the caller sent, or what stands for the text in a dry run."""
        return self.params.text or NOT_WRITTEN

    @property
    def is_text_sent(self) -> bool:
        """True if the caller wrote the text; else a retry may have another text than the first call."""
        return self.params.text is not None

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids under which the turn may be stored already."""
        params = self.params
        return derive_entry_ids(params.session_id, params.idempotency_key, TURN_ENTRIES_MAX)

    def check(self, draft: Draft) -> None:
        """Raise if the turn would be refused."""
        params = self.params
        require_may_append(draft, params.head, params.lease_id, params.expected)


def handle(client: Client, params: MergeParams, call: Call[Client]) -> Any:
    """Append the turn in its place in the inbox, or make a session of it in a worker thread.

    A merge into a new session runs the hooks first.
    """
    if params.text is not None and not params.text.strip():
        raise EntryInvalid("text is empty", path="text")
    require_two(params.session_id, params.other_session_id)
    merge = _Merge(client, params, call)
    if params.into == "new":
        _require_nothing_of_here(params)
        if not params.dry_run:
            return hooked(
                client,
                call,
                params.session_id,
                "before_fork",
                about=_about,
                go_on=lambda _supplied: _carry_out(merge),
            )
    if params.idempotency_key is None or params.dry_run:
        return _carry_out(merge)
    return _unless_stored(merge)


def _about(actor: SessionActor) -> BeforeFork:
    """Return the hook's notice for a merge into a new session: the leaf of main."""
    source = Source.of(actor)
    return BeforeFork(actor.session_id, source.session.id_of(source.leaf))


def _unless_stored(merge: _Merge) -> Any:
    """Answer a retry with the stored turn, also without the other session; else merge."""
    client, params, call = merge
    actor = client.service.actor(params.session_id)

    def look(draft: Draft) -> Receipt | None:
        # A retry is not compared by the place of the other session.
        other = MergedSession(params.other_session_id, None)
        entries = turn(Source.of(actor), other, merge.text, _now(merge))
        request = _request(params, entries)
        return earlier_merge(draft, request, is_text_sent=merge.is_text_sent)

    def finish(stored: Receipt | None, durability: Any) -> Any:
        return _carry_out(merge) if stored is None else _merged(stored, durability)

    return actor.submit(Command(call, finish, look, ids=merge.ids, entries=0))


def _carry_out(merge: _Merge) -> Any:
    client, params, call = merge

    def look(actor: SessionActor, other: SessionActor) -> Any:
        if params.text is None and not params.dry_run:
            return _have_written(merge, actor)
        if params.into == "new":
            sources = Source.of(actor), Source.of(other)
            return actor.later(call, lambda: _make(merge, sources, merge.text))
        if params.dry_run:
            return _rehearse(merge, actor, other)
        both = Source.of(actor), Source.of(other)
        request = _request(params, _turn(merge, both, merge.text))
        request.expected = params.expected
        size = len(merge.text.encode())
        return actor.submit(
            Command(
                call,
                _merged,
                lambda draft: _stage(draft, merge, request),
                ids=merge.ids,
                entries=TURN_ENTRIES_MAX,
                size=size,
            )
        )

    return ask_both(client, call, params.session_id, params.other_session_id, look)


def _require_nothing_of_here(params: MergeParams) -> None:
    """Raise InvalidParams for a guard of this session, which a merge into a new one leaves alone."""
    given = (
        ("head", params.head != MAIN),
        ("expected", params.expected is not None),
        ("lease_id", params.lease_id is not None),
        ("idempotency_key", params.idempotency_key is not None),
    )
    for name, is_given in given:
        if is_given:
            raise InvalidParams(
                f"a merge into a new session moves no head of this one: leave {name} out", path=name
            )


def _request(params: MergeParams, entries: Sequence[Entry]) -> AppendRequest:
    return AppendRequest(
        session_id=params.session_id,
        entries=entries,
        head=params.head,
        lease_id=params.lease_id,
        idempotency_key=params.idempotency_key,
    )


def _stage(draft: Draft, merge: _Merge, request: AppendRequest) -> Receipt:
    """Stage the turn, or return the receipt of an earlier call under the key."""
    earlier = earlier_merge(draft, request, is_text_sent=merge.is_text_sent)
    return append(draft, request) if earlier is None else earlier


def _merged(receipt: Receipt, _durability: Any) -> MergedHere:
    return MergedHere(receipt.entries[-1], receipt.leaf_id, receipt.seq)


def _rehearse(merge: _Merge, actor: SessionActor, other: SessionActor) -> Any:
    """Return what the session would be, after the checks of a real merge."""
    client, params, call = merge
    deps = copy_deps(client, call, actor.opened)

    def look(_receipt: Any, _durability: Any) -> Any:
        here = Source.of(actor, params.head)
        entries = turn(here, MergedSession.of(Source.of(other)), merge.text, deps.now)

        def work() -> CopyResult:
            chunks = merged_here(here, params.head, entries, deps)
            return CopyResult(rehearse(params.session_id, chunks, actor.opened.epoch))

        return actor.later(call, lambda: to_thread.run_sync(work))

    return actor.submit(Command(call, look, merge.check, entries=0))


def _have_written(merge: _Merge, actor: SessionActor) -> Any:
    """Have the text of the merge written, then append the turn or make a session of it."""
    client, params, call = merge
    runs = client.service.runs

    def begin(_receipt: Any = None, _durability: Any = None) -> Any:
        here = Source.of(actor, params.head)

        async def plan() -> Planned:
            other = await client.service.opened_actor(params.other_session_id)
            release = other.retain()
            try:
                both = (here, Source.of(other))
                wanted = await runs.read(merge_wanted, both, params.head)
            finally:
                release()

            async def commit(text: str) -> MergedHere | CopyResult:
                if params.into == "this":
                    return await _append(merge, actor, both, text)
                require_same_log(actor, here)
                return await _make(merge, both, text)

            return wanted, commit

        return runs.have_written(actor, call, plan)

    if params.into == "new":
        return begin()
    return actor.submit(Command(call, begin, merge.check, entries=0))


def _turn(merge: _Merge, both: _Both, text: str) -> list[Entry]:
    here, other = both
    return turn(here, MergedSession.of(other), text, _now(merge))


def _now(merge: _Merge) -> str:
    return merge.client.service.environment.now()


async def _append(merge: _Merge, actor: SessionActor, both: _Both, text: str) -> MergedHere:
    """Append the turn below the entries that the head gained meanwhile. Raise PlanStale."""
    here, _ = both
    request = _request(merge.params, _turn(merge, both, text))

    def stage(draft: Draft) -> Receipt:
        # Another call under the key may have stored its turn while the text was written.
        earlier = earlier_merge(draft, request, is_text_sent=False)
        if earlier is not None:
            return earlier
        require_grown(draft, request.head, here.session.id_of(here.leaf))
        return append(draft, request)

    def reads(session: Session) -> Iterable[int]:
        return filter(None, (session.ids.get(one, 0) for one in merge.ids))

    origin_id = merge.call.origin_id
    made = await submit_and_wait(actor, stage, merge.client, origin_id, reads)
    return _merged(made, None)


async def _make(merge: _Merge, both: _Both, text: str) -> CopyResult:
    """Make a session of the turn, from both sessions as they were at the call."""
    client, params, call = merge
    deps = copy_deps(client, call, both[0].opened)
    birth = Birth(client.service.environment.new_session_id(), deps)
    made = await make_copy(
        client,
        birth.session_id,
        lambda: merge_into_new(*both, text, birth),
        dry_run=params.dry_run,
        root=await root_of_copy(client, both[0].opened),
    )
    return CopyResult(made)


METHOD = Method(
    name="session/merge",
    params=MergeParams,
    result=MergedHere | CopyResult,
    handle=handle,
    access="write",
    errors=(
        *MOVE_ERRORS,
        EntryInvalid,
        IdempotencyConflict,
        Vetoed,
        PlanStale,
        SummarizerUnavailable,
    ),
)
