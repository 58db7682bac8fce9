"""The methods of the anyio client about the entries of a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from sessiond_client.asking import AsyncAsking
from sessiond_client.options import (
    AcquireOptions,
    AppendOptions,
    BranchOptions,
    CompactOptions,
    ContextOptions,
    EntriesOptions,
    MoveOptions,
    NavigateOptions,
    PageOptions,
    PathOptions,
    PlanBranchOptions,
    PlanCompactionOptions,
    Timed,
    TreeOptions,
    UsageOptions,
)
from sessiond_client.planning_results import (
    READ_BRANCH_PLAN,
    READ_NAVIGATED,
    READ_PLANNED,
    READ_USAGE,
    BranchPlan,
    Navigated,
    PlannedCompaction,
    WindowUsage,
)
from sessiond_client.results import (
    READ_APPENDED,
    READ_ENTRY,
    READ_ENTRY_PAGE,
    READ_HEADS,
    READ_NOTHING,
    READ_PATH_PAGE,
    READ_SEQ,
    Appended,
    EntryPage,
    Heads,
    PathPage,
    StoredEntry,
)
from sessiond_client.tree_results import (
    READ_COMPACTED,
    READ_CONTEXT,
    READ_ENTRIES_MEANT,
    READ_LABEL_PAGE,
    READ_LEASE,
    READ_MOVED,
    READ_REWOUND,
    READ_TREE_PAGE,
    Compacted,
    Context,
    EntriesMeant,
    LabelPage,
    Lease,
    Moved,
    Rewound,
    TreePage,
)

__all__ = ["AsyncEntries"]


class AsyncEntries(AsyncAsking):
    """Appends, moves heads, and reads."""

    async def append(self, session_id: str, **options: Unpack[AppendOptions]) -> Appended:
        """Stores `message`, `entry` or `entries`: once, however often it had to be sent."""
        return await self._ask(
            "session/append", READ_APPENDED, {"session_id": session_id, **options}
        )

    async def branch(
        self, session_id: str, entry_id: str | None, **options: Unpack[BranchOptions]
    ) -> Moved:
        """Moves a head to an entry; None = before the first one, and with `drop=True` no entry."""
        target = {} if options.get("drop") else {"entry_id": entry_id}
        return await self._ask(
            "session/branch", READ_MOVED, {"session_id": session_id, **target, **options}
        )

    async def reset(self, session_id: str, **options: Unpack[MoveOptions]) -> Moved:
        """Moves a head before the first entry."""
        return await self._ask("session/reset", READ_MOVED, {"session_id": session_id, **options})

    async def rewind(
        self, session_id: str, to: str | None, **options: Unpack[MoveOptions]
    ) -> Rewound:
        """Puts a head back on its own path; None = before the first entry."""
        return await self._ask(
            "session/rewind", READ_REWOUND, {"session_id": session_id, "to": to, **options}
        )

    async def acquire(
        self, session_id: str, ttl_ms: int, **options: Unpack[AcquireOptions]
    ) -> Lease:
        """Has a head for itself; what moves it then names `lease_id`. It is lost with the connection."""
        return await self._ask(
            "session/acquire",
            READ_LEASE,
            {"session_id": session_id, "ttl_ms": ttl_ms, **options},
        )

    async def renew(
        self, session_id: str, lease_id: str, ttl_ms: int, **options: Unpack[Timed]
    ) -> Lease:
        """Keeps a lease for so long from now."""
        return await self._ask(
            "session/renew",
            READ_LEASE,
            {"session_id": session_id, "lease_id": lease_id, "ttl_ms": ttl_ms, **options},
        )

    async def release(self, session_id: str, lease_id: str, **options: Unpack[Timed]) -> None:
        """Ends a lease; one that is over already is no error."""
        return await self._ask(
            "session/release",
            READ_NOTHING,
            {"session_id": session_id, "lease_id": lease_id, **options},
        )

    async def label(
        self, session_id: str, entry_id: str, label: str | None, **options: Unpack[Timed]
    ) -> int:
        """Names an entry, None clears; the `seq` of the record."""
        return await self._ask(
            "session/label",
            READ_SEQ,
            {"session_id": session_id, "entry_id": entry_id, "label": label, **options},
        )

    async def labels(self, session_id: str, **options: Unpack[PageOptions]) -> LabelPage:
        """The labels in force."""
        return await self._ask(
            "session/labels", READ_LABEL_PAGE, {"session_id": session_id, **options}
        )

    async def heads(self, session_id: str, **options: Unpack[Timed]) -> Heads:
        """The named heads."""
        return await self._ask("session/heads", READ_HEADS, {"session_id": session_id, **options})

    async def entry(self, session_id: str, entry_id: str, **options: Unpack[Timed]) -> StoredEntry:
        """One entry and its place."""
        return await self._ask(
            "session/entry", READ_ENTRY, {"session_id": session_id, "entry_id": entry_id, **options}
        )

    async def resolve_entries(
        self, session_id: str, refs: Sequence[str], **options: Unpack[Timed]
    ) -> EntriesMeant:
        """Return the entries meant by ids, labels, or the beginnings or ends of ids."""
        return await self._ask(
            "session/resolve_entries",
            READ_ENTRIES_MEANT,
            {"session_id": session_id, "refs": [*refs], **options},
        )

    async def entries(self, session_id: str, **options: Unpack[EntriesOptions]) -> EntryPage:
        """Entries in the order in which they were stored."""
        return await self._ask(
            "session/entries", READ_ENTRY_PAGE, {"session_id": session_id, **options}
        )

    async def path(self, session_id: str, **options: Unpack[PathOptions]) -> PathPage:
        """The entries from the root to a leaf."""
        return await self._ask(
            "session/path", READ_PATH_PAGE, {"session_id": session_id, **options}
        )

    async def tree(self, session_id: str, **options: Unpack[TreeOptions]) -> TreePage:
        """All entries as a tree, flat, in pre-order."""
        return await self._ask(
            "session/tree", READ_TREE_PAGE, {"session_id": session_id, **options}
        )

    async def build_context(self, session_id: str, **options: Unpack[ContextOptions]) -> Context:
        """What a model is given. The client keeps nothing of it."""
        return await self._ask(
            "session/build_context", READ_CONTEXT, {"session_id": session_id, **options}
        )

    async def navigate(
        self, session_id: str, entry_id: str | None, **options: Unpack[NavigateOptions]
    ) -> Navigated:
        """Goes to an entry, or, of what a user said, before it: `editor_text` is to be said anew."""
        return await self._ask(
            "session/navigate",
            READ_NAVIGATED,
            {"session_id": session_id, "entry_id": entry_id, **options},
        )

    async def plan_branch_summary(
        self, session_id: str, entry_id: str | None, **options: Unpack[PlanBranchOptions]
    ) -> BranchPlan:
        """What the head would leave behind, and the prompt for a summary of it."""
        return await self._ask(
            "session/plan_branch_summary",
            READ_BRANCH_PLAN,
            {"session_id": session_id, "entry_id": entry_id, **options},
        )

    async def plan_compaction(
        self, session_id: str, **options: Unpack[PlanCompactionOptions]
    ) -> PlannedCompaction:
        """What a compaction would summarise, and the prompt for it; or why there is nothing to do."""
        return await self._ask(
            "session/plan_compaction", READ_PLANNED, {"session_id": session_id, **options}
        )

    async def usage(self, session_id: str, **options: Unpack[UsageOptions]) -> WindowUsage:
        """How full the model's window is, and what the session has cost."""
        return await self._ask("session/usage", READ_USAGE, {"session_id": session_id, **options})

    async def compact(self, session_id: str, **options: Unpack[CompactOptions]) -> Compacted:
        """Replaces what precedes by a summary or by messages."""
        return await self._ask(
            "session/compact", READ_COMPACTED, {"session_id": session_id, **options}
        )
