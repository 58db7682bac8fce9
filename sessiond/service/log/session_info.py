"""Sessions as lists and answers show them: the shapes, and the fields from a header.

Law: these are the wire's words; `OpenSession` and `Session` hold the session itself.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond import typed
from sessiond.model.entries import Header
from sessiond.model.events import ReadOnlyReason
from sessiond.model.ids import MAIN
from sessiond.model.scopes import Scope
from sessiond.model.usage import Usage
from sessiond.session.index import Head, Session

Persist = Literal["on_assistant", "immediate", "never"]
Activity = Literal["busy", "idle"]


class HeadInfo(Struct, frozen=True):
    """Named head: its entry and the seq of the line that moved it last."""

    name: str
    leaf_id: str | None
    seq: int


class Lineage(Struct, frozen=True, omit_defaults=True):
    """Origin of a session."""

    parent_id: str | None = None
    parent_path: str | None = None
    at_entry: str | None = None
    at_message: int | None = None
    fork_point: int | None = None
    merge_source: str | None = None
    rebased_from: str | None = None
    header_id: str | None = None
    detached: bool = False
    subagent: bool = False
    """True if the session of `parent_id` started this one for a task."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """Session as lists and answers show it. Times are RFC 3339 UTC.

    `scope` is the key of a scoped session, and absent for any other session. The last four fields
    may be long: answers about one session have them, lists do not.
    """

    id: str
    path: str | None
    cwd: str
    title: str | None
    auto_title: str | None
    agent: str | None
    model: str | None
    provider: str | None
    thinking_level: str | None
    tags: list[str]
    status: str | None
    dry_run: bool | None
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None
    seq: int
    leaf_id: str | None
    heads: list[HeadInfo]
    message_count: int
    message_total: int
    turn_count: int
    entry_count: int
    first_message: str | None
    usage: Usage | None
    persisted: bool
    persist: Persist
    dialect: str
    agent_program: str
    archived: bool
    read_only: bool
    read_only_reason: ReadOnlyReason | None = None
    problems: int
    epoch: str
    lineage: Lineage
    scope: Scope | UnsetType = UNSET
    partial: bool | UnsetType = UNSET
    """True if a list has read only the beginning and the end of a large file; else absent."""
    running: Activity | UnsetType = UNSET
    """State of the agent's program on this session, in lists; absent where none is known to run."""
    plan: str | UnsetType | None = UNSET
    system_prompt: str | UnsetType | None = UNSET
    compaction: Raw | UnsetType | None = UNSET
    metadata: Raw | UnsetType | None = UNSET


def head_infos(session: Session) -> list[HeadInfo]:
    """Return every head, main first, then by name."""

    def shown(name: str, head: Head) -> HeadInfo:
        return HeadInfo(name, session.id_of(head.leaf), head.seq)

    names = sorted(session.heads, key=lambda name: (name != MAIN, name))
    return [shown(name, session.heads[name]) for name in names]


def lineage_of(header: Header, session_id: str, stated: Raw | None = None) -> Lineage:
    """Return the header's lineage, completed by the header's other fields.

    `stated` is a lineage that a later line states; a header with a lineage says more.
    """
    lineage = Lineage()
    raw = stated if isinstance(header.lineage, UnsetType) else header.lineage
    if raw is not None:
        lineage = _decode_lineage(raw)
    if header.parent_session is not None and lineage.parent_path is None:
        lineage = msgspec.structs.replace(lineage, parent_path=header.parent_session)
    if header.id != session_id and lineage.header_id is None:
        lineage = msgspec.structs.replace(lineage, header_id=header.id)
    return lineage


def _decode_lineage(raw: Raw) -> Lineage:
    try:
        return typed.decode(raw, Lineage)
    except msgspec.DecodeError:
        # The lineage in another program's header may have another shape.
        return Lineage()
