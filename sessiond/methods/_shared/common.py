"""Helpers that several methods share: calls to a session's actor, decoding of entries, splicing of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from sessiond import typed
from sessiond.errors import EntryInvalid, InvalidParams, TooLarge
from sessiond.limits import (
    PAGE_ROWS_DEFAULT,
    PAGE_ROWS_MAX,
    PATH_BYTES_MAX,
    RESULT_BYTES_MAX,
)
from sessiond.model.entries import ENTRY_TYPES, HEADER_TYPES, Entry, Opaque, SessionInfoEntry
from sessiond.model.events import CatalogChange
from sessiond.model.ids import NewEntryId, SessionId
from sessiond.model.integers import IntegerDecoder
from sessiond.model.times import utc_time
from sessiond.rpc.calls import Call
from sessiond.rpc.params import Params, invalid_params
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.inbox import Command
from sessiond.service.client import Client
from sessiond.session.draft import Draft


class SessionParams(Params):
    """Parameters of a method on one session."""

    session_id: SessionId


class Empty(Struct, frozen=True):
    """Empty answer: the call succeeded."""


encode: Final = msgspec.json.Encoder().encode


def ask(
    client: Client, call: Call[Client], session_id: str, question: Callable[[SessionActor], Any]
) -> Any:
    """Answer from a session's state, after this connection's earlier mutations."""
    actor = client.service.actor(session_id)
    return actor.ask(call, lambda: question(actor))


def ask_in_turn(
    client: Client, call: Call[Client], session_id: str, question: Callable[[SessionActor], Any]
) -> Any:
    """Answer between two batches of the session's writer, when no batch is on its way to the disk."""
    actor = client.service.actor(session_id)
    return actor.ask_in_turn(call, lambda: question(actor))


def submit(
    client: Client, call: Call[Client], session_id: str, stage: Callable[[Draft], Any]
) -> Any:
    """Put a mutation into the session's inbox; its receipt is the result."""
    actor = client.service.actor(session_id)
    return actor.submit(Command(call, _receipt, stage))


def act(
    client: Client,
    call: Call[Client],
    session_id: str,
    do: Callable[[SessionActor], None],
    change: CatalogChange,
) -> Any:
    """Run an operation on a session's whole file, in its turn among the mutations."""
    actor = client.service.actor(session_id)

    def done(_receipt: Any, _durability: str) -> Empty:
        client.service.live_catalog.changed(session_id, change)
        return Empty()

    def act(lines: Sequence[bytes], *, late: bool) -> None:  # noqa: ARG001 - no line comes with it
        do(actor)

    return actor.submit(Command(call, done, act=act, entries=0))


def _receipt(receipt: Any, _durability: str) -> Any:
    return receipt


def page_limit(limit: int | None) -> int:
    """Return how many rows a page has, at most PAGE_ROWS_MAX. Raise InvalidParams below 1."""
    if limit is None:
        return PAGE_ROWS_DEFAULT
    if limit < 1:
        raise InvalidParams("limit must be 1 or more", path="limit")
    return min(limit, PAGE_ROWS_MAX)


def raw(parts: Iterable[bytes]) -> Raw:
    """Return a result spliced from JSON bytes. Raise TooLarge."""
    spliced = b"".join(parts)
    require_result_fits(len(spliced))
    return Raw(spliced)


def require_path(text: str, name: str = "path") -> None:
    """Raise InvalidParams for text of the parameter `name` that cannot be an absolute path."""
    if len(text.encode()) > PATH_BYTES_MAX:
        raise InvalidParams(f"a path has at most {PATH_BYTES_MAX} bytes", path=name)
    if not Path(text).is_absolute():
        raise InvalidParams(
            f"{name} must be absolute: the daemon's working directory is not the caller's",
            path=name,
        )
    if "\0" in text:
        raise InvalidParams(f"{name} must not contain a NUL character", path=name)


def require_time(text: str, path: str) -> str:
    """Return a time of the protocol (RFC 3339), in UTC without an offset. Raises InvalidParams for other text."""
    found = utc_time(text)
    if found is None:
        raise InvalidParams(
            "not an RFC 3339 time: send a date, T, a time of day and Z or an offset,"
            " like 2026-01-15T10:30:00.000Z",
            path=path,
        )
    return found


def require_result_fits(size: int) -> None:
    """Raise TooLarge for an answer over the limit."""
    if size > RESULT_BYTES_MAX:
        raise TooLarge(
            "the answer is larger than an answer may be: ask for less with limit or known",
            limit=RESULT_BYTES_MAX,
            size=size,
        )


class _TypeOnly(Struct):
    type: str


class SessionInfoSent(SessionInfoEntry, tag="session_info"):
    """Facts about the session as a client sends them: `title` is the wire's name for `name`."""

    title: str | UnsetType | None = msgspec.UNSET


SENT_TYPES: Final[dict[str, type[Entry]]] = {**ENTRY_TYPES, "session_info": SessionInfoSent}
"""Entries as a client sends them, by their type."""

_type_of = typed.decoder(_TypeOnly)
_fields_of = typed.decoder(dict[str, Raw])
_decoders: Final[dict[str, IntegerDecoder[Any]]] = {
    word: IntegerDecoder(kind) for word, kind in SENT_TYPES.items()
}
# Members that the daemon assigns: an entry of a client holds none of them.
ASSIGNED: Final = ("parent_id", "head", "atom", "atom_of", "seq")


class _OpaqueOwn(Struct):
    """Fields of an entry of unknown type that the daemon checks."""

    type: str
    id: NewEntryId | UnsetType = msgspec.UNSET
    timestamp: str | UnsetType = msgspec.UNSET


def parse_entry(data: Raw, path: str) -> Entry | Opaque:
    """Return an entry as a client sent it. Raise InvalidParams, EntryInvalid with the field's path."""
    try:
        word = _type_of.decode(data).type
        decoder = _decoders.get(word)
        entry = decoder.decode(data) if decoder else _parse_opaque(data, word, path)
    except msgspec.ValidationError as error:
        raise invalid_params(error, prefix=path) from error
    for name in ASSIGNED:
        if getattr(entry, name, msgspec.UNSET) is not msgspec.UNSET:
            raise InvalidParams(
                f"the daemon assigns {name}: leave {name} out of the entry",
                path=f"{path}.{name}",
            )
    if isinstance(entry.timestamp, str):
        entry.timestamp = require_time(entry.timestamp, f"{path}.timestamp")
    return _with_name(entry, path) if isinstance(entry, SessionInfoSent) else entry


def _with_name(sent: SessionInfoSent, path: str) -> SessionInfoEntry:
    if sent.title is not msgspec.UNSET and sent.name is not msgspec.UNSET:
        raise InvalidParams("title and name are one field: send title only", path=f"{path}.name")
    fields = {name: getattr(sent, name) for name in SessionInfoEntry.__struct_fields__}
    if sent.title is not msgspec.UNSET:
        fields["name"] = sent.title
    return SessionInfoEntry(**fields)


def _parse_opaque(data: Raw, word: str, path: str) -> Opaque:
    if word in HEADER_TYPES:
        raise EntryInvalid(
            "a header cannot be appended: session/create writes it", path=f"{path}.type"
        )
    fields = _fields_of.decode(data)
    for name in ASSIGNED:
        if name in fields:
            raise InvalidParams(
                f"the daemon assigns {name}: leave {name} out of the entry", path=f"{path}.{name}"
            )
    own = typed.decode(data, _OpaqueOwn)
    for name in ("type", "id", "timestamp"):
        fields.pop(name, None)
    return Opaque(type=word, id=own.id, timestamp=own.timestamp, fields=fields)
