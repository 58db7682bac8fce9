"""The optional parameters of each method, spelled as on the wire.

One TypedDict serves both clients. `timeout` (seconds, None = no bound) is the one
name that stays here; everything else goes to the daemon as it is, and what is left
out is not sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from msgspec import Raw

from sessiond_client.events import After

__all__ = [
    "AcquireOptions",
    "AppendOptions",
    "BranchOptions",
    "CompactOptions",
    "ConnectOptions",
    "ContextOptions",
    "EntriesOptions",
    "Hook",
    "Json",
    "MoveOptions",
    "NavigateOptions",
    "OfferOptions",
    "PageOptions",
    "PathOptions",
    "PlanBranchOptions",
    "PlanCompactionOptions",
    "PresenceOptions",
    "SignalOptions",
    "SubscribeOptions",
    "Timed",
    "TreeOptions",
    "UsageOptions",
]

Json = Mapping[str, Any]
Hook = Literal["before_compact", "before_fork", "before_branch"]


OnProgress = Callable[[int, int | None, str], None]
"""Told how far a call is: done, of how many (None: not known), of what. It returns at once."""


class Timed(TypedDict, total=False):
    """What every call takes."""

    timeout: float | None
    on_progress: OnProgress | None
    """Long work is told to it while the call waits, if the daemon has something to tell."""


class ConnectOptions(TypedDict, total=False):
    """How a client connects."""

    timeout: float | None
    """Bounds each call, with its reconnects and retries; a call may name its own."""
    connect_timeout: float
    """How long entering waits for a daemon that is not there yet; 0 = one try."""
    client_id: str
    """Names this client in the origin of its events."""
    access: Literal["write", "read", "status"]
    profile: str
    """Whose daemon, if no socket is named; default: `$SESSIOND_PROFILE`, else "default"."""
    home: str | os.PathLike[str]
    """Where that daemon keeps its sessions; default: `$SESSIOND_HOME`, else the user's data folder."""
    start: bool
    """Whether to start a daemon where nobody listens, now and after it ended. Default: only if no
    socket is named."""


class _Move(Timed, total=False):
    head: str
    expected: Json
    lease_id: str


class AppendOptions(_Move, total=False):
    """session/append: one of `message`, `entry`, `entries`.

    A `Raw` travels as the bytes it is. Entries without `id` get one here, unless
    an `idempotency_key` is given.
    """

    message: Json | Raw
    entry: Json | Raw
    entries: Sequence[Json | Raw]
    parent_id: str | None
    on_conflict: Literal["fail", "branch"]
    idempotency_key: str
    durability: Literal["disk", "os"]


class BranchOptions(_Move, total=False):
    """session/branch, beside `entry_id`."""

    drop: bool
    summary: str
    details: Any


class MoveOptions(_Move, total=False):
    """session/reset, and session/rewind beside `to`."""


class AcquireOptions(Timed, total=False):
    """session/acquire, beside `ttl_ms`, and `lease()`. `timeout` must be longer than `wait_ms`."""

    head: str
    wait_ms: int


class PageOptions(Timed, total=False):
    """session/labels."""

    limit: int
    cursor: str


class EntriesOptions(Timed, total=False):
    """session/entries."""

    after_seq: int
    before_seq: int
    limit: int
    types: Sequence[str]


class PathOptions(Timed, total=False):
    """session/path."""

    entry_id: str
    head: str
    limit: int
    cursor: str
    from_end: bool


class TreeOptions(Timed, total=False):
    """session/tree; `layout`, `limit` and `cursor` for the flat form, the others for text.

    On Python 3.11 a nested tree of more than about 480 levels needs a higher
    `sys.setrecursionlimit`.
    """

    form: Literal["flat", "nested", "text"]
    layout: bool
    ids: bool | Literal["short"]
    depth: int
    around: str
    limit: int
    cursor: str


class ContextOptions(Timed, total=False):
    """session/build_context. What `known` and `if_none_match` name, the caller keeps."""

    head: str
    entry_id: str
    known: Json
    if_none_match: str
    repair: bool
    shape: Literal["stored", "openai", "anthropic"]
    include: Sequence[Literal["system"]]


class NavigateOptions(_Move, total=False):
    """session/navigate."""

    summary: str
    details: Any
    label: str


class PlanBranchOptions(Timed, total=False):
    """session/plan_branch_summary."""

    head: str
    budget_tokens: int
    instructions: str


class PlanCompactionOptions(Timed, total=False):
    """session/plan_compaction."""

    head: str
    keep_recent_tokens: int
    instructions: str


class UsageOptions(Timed, total=False):
    """session/usage."""

    head: str
    context_window: int


class CompactOptions(_Move, total=False):
    """session/compact: a summary, or replacement messages; under a plan or not.

    With neither the daemon has a summary written, by `instructions`: allow it minutes (`timeout`).
    """

    plan_id: str
    summary: str
    first_kept_entry_id: str
    messages: Sequence[Json | Raw]
    details: Any
    tokens_before: int
    idempotency_key: str
    instructions: str


class OfferOptions(Timed, total=False):
    """What a client does for the daemon: write summaries, have a word before changes.

    `hooks` True are all three. `timeout` bounds the first answer only.
    """

    summarize: bool
    hooks: bool | Sequence[Hook]


class SubscribeOptions(Timed, total=False):
    """session/subscribe. `timeout` bounds the first answer only."""

    after: After | None
    types: Sequence[str]
    heads: Sequence[str]
    bodies: bool
    signals: bool
    """Yields `Signal` and `Presence` too; without it, they stay away."""


class SignalOptions(Timed, total=False):
    """session/signal. `data` is any JSON; `Raw` travels as it is."""

    data: Any


class PresenceOptions(Timed, total=False):
    """session/presence: `state` None takes it back; without `state`, it is only asked."""

    state: str | None
    head: str
    data: Any
