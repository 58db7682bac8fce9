"""The optional parameters of the methods about sessions as a whole; as `options` says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from sessiond_client.options import Json, Timed

__all__ = [
    "ContinueOptions",
    "CreateOptions",
    "ExportOptions",
    "ForestOptions",
    "ForkOptions",
    "ImportOptions",
    "ListOptions",
    "MergeOptions",
    "OpenOptions",
    "RebaseOptions",
    "RepairOptions",
    "RetentionOptions",
    "SearchOptions",
    "TrashOptions",
    "UpdateOptions",
]


class CreateOptions(Timed, total=False):
    """session/create, beside `cwd`."""

    session_id: str
    title: str
    agent: str
    model: str
    tags: Sequence[str]
    system_prompt: str
    compaction: Json
    dry_run: bool
    metadata: Json
    persist: Literal["on_assistant", "immediate", "never"]
    if_exists: Literal["fail", "open"]


class UpdateOptions(Timed, total=False):
    """session/update: what changes; None clears."""

    title: str | None
    auto_title: str | Literal[True] | None
    tags: Sequence[str] | None
    agent: str | None
    model: str | None
    provider: str | None
    thinking_level: str | None
    status: str | None
    plan: str | None
    dry_run: bool | None
    persist: Literal["on_assistant", "immediate"]
    system_prompt: str | None
    compaction: Any
    metadata: Any
    expected: Json


class OpenOptions(Timed, total=False):
    """session/open: one of the first three names the session."""

    session_id: str
    path: str
    entry_id: str
    create: bool
    cwd: str


class ListOptions(Timed, total=False):
    """session/list. `archived=None` lists both; times are RFC 3339."""

    cwd: str
    tags: list[str]
    agent: str
    status: str
    archived: bool | None
    title: str
    query: str
    created_after: str
    created_before: str
    updated_after: str
    updated_before: str
    root: str
    profile: str
    drafts: bool
    sort: Literal["updated_at", "created_at", "title", "message_count"]
    order: Literal["asc", "desc"]
    limit: int
    cursor: str


class ContinueOptions(Timed, total=False):
    """session/continue_recent."""

    cwd: str


class ForestOptions(Timed, total=False):
    """catalog/forest: all sessions, those of a project, or the tree that a session stands in."""

    scope: Literal["all", "project", "session"]
    session_id: str
    cwd: str
    form: Literal["nodes", "text"]


class RetentionOptions(Timed, total=False):
    """retention/run; without `dry_run=False` it is only said what would go."""

    dry_run: bool


class SearchOptions(Timed, total=False):
    """session/search. `archived=None` searches both."""

    cwd: str
    archived: bool | None
    drafts: bool
    limit: int


class TrashOptions(Timed, total=False):
    """session/trash."""

    limit: int
    cursor: str


class ImportOptions(Timed, total=False):
    """session/import: one of `path`, `content`."""

    path: str
    content: str
    format: str
    cwd: str


class ForkOptions(Timed, total=False):
    """session/fork. `at=None` ends the path before the first entry; `link="none"`: no parent."""

    entries: Literal["path", "all", "context", "none"]
    at: str | None
    at_message: int
    keep_messages: int
    link: Literal["parent", "none"]
    labels: bool
    state: bool
    ids: Literal["keep", "renew"]
    cwd: str
    title: str
    new_session_id: str
    dry_run: bool


class RebaseOptions(Timed, total=False):
    """session/rebase: one of `entry_ids`, `indices`; `squash={"summary": …}`."""

    entry_ids: list[str]
    indices: list[int]
    squash: dict[str, str]
    link: Literal["parent", "none"]
    dry_run: bool


class MergeOptions(Timed, total=False):
    """session/merge; `head`, `expected` and `lease_id` go with `into="this"`."""

    into: Literal["this", "new"]
    head: str
    expected: Json
    lease_id: str
    dry_run: bool


class ExportOptions(Timed, total=False):
    """session/export: into the file `path`, else as content."""

    format: str
    path: str


class RepairOptions(Timed, total=False):
    """session/repair; without `dry_run=False` it is only said what would be done."""

    dry_run: bool
