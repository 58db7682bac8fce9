"""session/append: store one entry, or several entries as one atom."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from sessiond.errors import (
    EntryInvalid,
    EntryNotFound,
    IdempotencyConflict,
    InvalidParams,
    TooLarge,
)
from sessiond.limits import APPEND_ENTRIES_MAX
from sessiond.methods._shared.common import parse_entry
from sessiond.methods._shared.head_params import MOVE_ERRORS, MoveParams
from sessiond.model.deferred import DEFERRED
from sessiond.model.entries import Entry, Message, MessageBytes, Opaque, SentEntryBytes
from sessiond.model.ids import EntryId, derive_entry_ids
from sessiond.rpc.calls import Call
from sessiond.rpc.dispatch import Method
from sessiond.service.actor.inbox import Command
from sessiond.service.actor.plain_append import PlainAppend
from sessiond.service.client import Client
from sessiond.session.append import append
from sessiond.session.append_request import AppendRequest
from sessiond.session.receipts import Receipt


class AppendParams(MoveParams):
    """Entries to store (one of `message`, `entry`, `entries`), their place, and the condition to meet."""

    message: MessageBytes | UnsetType = UNSET
    entry: SentEntryBytes | UnsetType = UNSET
    entries: list[SentEntryBytes] | UnsetType = UNSET
    parent_id: EntryId | UnsetType | None = UNSET
    on_conflict: Literal["fail", "branch"] = "fail"
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    durability: Literal["disk", "os"] = "disk"


def handle(client: Client, params: AppendParams, call: Call[Client]) -> Any:
    """Put the append into the inbox of the session."""
    if _is_plain(params):
        assert not isinstance(params.message, UnsetType), "a plain append has a message"
        plain = PlainAppend(
            call,
            _result,
            size=len(params.message),
            sync=params.durability == "disk",
            session_id=params.session_id,
            message=params.message,
            head=params.head,
        )
        session_id = params.session_id
        actor = client.open_actors.get(session_id) or client.service.actor(session_id)
        actor.submit(plain)
        return DEFERRED
    _require_one_place(params)
    entries, size = _entries(params)
    ids = _ids(params, entries)
    request = AppendRequest(
        session_id=params.session_id,
        entries=entries,
        head=params.head,
        parent_id=params.parent_id,
        expected=params.expected,
        lease_id=params.lease_id,
        branch_on_conflict=params.on_conflict == "branch",
        idempotency_key=params.idempotency_key,
        path=_path(params),
    )
    command = Command(
        call,
        _result,
        lambda draft: append(draft, request),
        ids=ids,
        entries=len(entries),
        size=size,
        sync=params.durability == "disk",
    )
    client.service.actor(params.session_id).submit(command)
    return DEFERRED


def _is_plain(params: AppendParams) -> bool:
    """Return whether the call appends one message to a head, under no condition."""
    return (
        params.message is not UNSET
        and params.entry is UNSET
        and params.entries is UNSET
        and params.parent_id is UNSET
        and params.expected is None
        and params.lease_id is None
        and params.idempotency_key is None
    )


def _entries(params: AppendParams) -> tuple[list[Entry | Opaque], int]:
    """Return the entries of the call, decoded, and their size in bytes."""
    message, entry, entries = params.message, params.entry, params.entries
    if (message is not UNSET) + (entry is not UNSET) + (entries is not UNSET) != 1:
        raise InvalidParams("send one of message, entry, entries", path="entry")
    if not isinstance(message, UnsetType):
        return [Message(message=message)], len(message)
    if not isinstance(entry, UnsetType):
        return [parse_entry(entry, "entry")], len(entry)
    assert not isinstance(entries, UnsetType)
    if not entries:
        raise InvalidParams("entries is empty", path="entries")
    if len(entries) > APPEND_ENTRIES_MAX:
        raise TooLarge("too many entries in one call", limit=APPEND_ENTRIES_MAX)
    typed = [parse_entry(data, f"entries[{index}]") for index, data in enumerate(entries)]
    return typed, sum(map(len, entries))


def _require_one_place(params: AppendParams) -> None:
    """Raise InvalidParams if a conflict would have two entries to branch at."""
    if params.on_conflict != "branch" or params.expected is None or params.parent_id is UNSET:
        return
    if params.expected.leaf_id not in {UNSET, params.parent_id}:
        raise InvalidParams(
            'with on_conflict "branch" the entries go below expected.leaf_id: leave parent_id out,'
            " or send that id in it",
            path="parent_id",
        )


def _path(params: AppendParams) -> str:
    """Return the path of a lone entry within the parameters."""
    if params.message is not UNSET:
        return ""
    return "entry" if params.entry is not UNSET else "entries[0]"


def _ids(params: AppendParams, entries: list[Entry | Opaque]) -> tuple[str, ...]:
    """Return the ids under which the entries may be stored already."""
    key = params.idempotency_key
    if key is None:
        return tuple([entry.id for entry in entries if isinstance(entry.id, str)])
    if any(entry.id is not UNSET for entry in entries):
        raise InvalidParams(
            "idempotency_key derives the ids of the entries: send no id in an entry",
            path="idempotency_key",
        )
    return derive_entry_ids(params.session_id, key, len(entries))


def _result(receipt: Receipt, durability: Any) -> Receipt:
    receipt.durability = durability
    return receipt


METHOD = Method(
    name="session/append",
    aliases=("append",),
    params=AppendParams,
    result=Receipt,
    handle=handle,
    access="write",
    errors=(*MOVE_ERRORS, EntryNotFound, EntryInvalid, IdempotencyConflict),
)
