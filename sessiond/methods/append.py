"""session/append: store one entry, or several as one atom."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.errors import InvalidParams, TooLarge
from sessiond.limits import APPEND_ENTRIES_MAX
from sessiond.methods.common import DEFERRED, Call, Client, Method, SessionParams, parse_entry
from sessiond.model.entries import Entry, Message, Opaque
from sessiond.model.ids import MAIN, EntryId, HeadName, derive_entry_id
from sessiond.service.inbox import Command
from sessiond.session.append import AppendRequest, Expected, Receipt, StoredEntry, append

__all__ = ["METHOD"]


class AppendParams(SessionParams):
    """One of `message`, `entry`, `entries`; where; under which condition."""

    message: Raw | UnsetType = UNSET
    entry: Raw | UnsetType = UNSET
    entries: list[Raw] | UnsetType = UNSET
    head: HeadName = MAIN
    parent_id: EntryId | UnsetType | None = UNSET
    expected: Expected | None = None
    on_conflict: Literal["fail", "branch"] = "fail"
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    durability: Literal["disk", "os"] = "disk"


class AppendResult(Struct, frozen=True):
    """What was stored, where the head stands now, and what the storing can count on."""

    entries: list[StoredEntry]
    leaf_id: str | None
    seq: int
    head: str
    duplicate: bool
    durability: Literal["disk", "os", "memory"]


def handle(client: Client, params: AppendParams, call: Call[Client]) -> Any:
    """Put the append in line for the session's writer."""
    entries, size = _entries(params)
    ids = _ids(params, entries)
    request = AppendRequest(
        session_id=params.session_id,
        entries=entries,
        head=params.head,
        parent_id=params.parent_id,
        expected=params.expected,
        branch_on_conflict=params.on_conflict == "branch",
        idempotency_key=params.idempotency_key,
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
    client.service.host(params.session_id).submit(command)
    return DEFERRED


def _entries(params: AppendParams) -> tuple[list[Entry | Opaque], int]:
    """The entries sent, typed, and their size in bytes."""
    sent = [name for name in ("message", "entry", "entries") if getattr(params, name) is not UNSET]
    if len(sent) != 1:
        raise InvalidParams(
            "send one of message, entry, entries", path=sent[1] if sent else "entry"
        )
    if not isinstance(params.message, UnsetType):
        return [Message(message=params.message)], len(params.message)
    if not isinstance(params.entry, UnsetType):
        return [parse_entry(params.entry, "entry")], len(params.entry)
    assert not isinstance(params.entries, UnsetType)
    if not params.entries:
        raise InvalidParams("entries is empty", path="entries")
    if len(params.entries) > APPEND_ENTRIES_MAX:
        raise TooLarge("too many entries in one call", limit=APPEND_ENTRIES_MAX)
    typed = [parse_entry(data, f"entries[{index}]") for index, data in enumerate(params.entries)]
    return typed, sum(map(len, params.entries))


def _ids(params: AppendParams, entries: list[Entry | Opaque]) -> tuple[str, ...]:
    """The ids under which the entries may be stored already."""
    key = params.idempotency_key
    given = tuple(entry.id for entry in entries if isinstance(entry.id, str))
    if key is None:
        return given
    if given:
        raise InvalidParams("an idempotency_key gives the ids; send none", path="idempotency_key")
    return tuple(derive_entry_id(params.session_id, key, index) for index in range(len(entries)))


def _result(receipt: Receipt, durability: Any) -> AppendResult:
    return AppendResult(
        receipt.entries,
        receipt.leaf_id,
        receipt.seq,
        receipt.head,
        receipt.duplicate,
        durability,
    )


METHOD = Method(
    name="session/append",
    aliases=("append",),
    params=AppendParams,
    result=AppendResult,
    handle=handle,
    access="write",
)
