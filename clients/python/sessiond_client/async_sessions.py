"""The methods of the anyio client about sessions as a whole, and the daemon."""

from __future__ import annotations

from typing import Any, Unpack

from sessiond_client.asking import AsyncAsking
from sessiond_client.copies import READ_MERGE_PLAN, READ_MERGED, Merged, MergePlan
from sessiond_client.options import PresenceOptions, SignalOptions, Timed
from sessiond_client.results import (
    READ_ANY,
    READ_CREATED,
    READ_EXPORTED,
    READ_IMPORTED,
    READ_NOTHING,
    READ_PRESENT,
    READ_SESSION,
    READ_SESSION_PAGE,
    Created,
    Everybody,
    Exported,
    Imported,
    SessionInfo,
    SessionPage,
)
from sessiond_client.session_options import (
    ContinueOptions,
    CreateOptions,
    ExportOptions,
    ForestOptions,
    ForkOptions,
    ImportOptions,
    ListOptions,
    MergeOptions,
    OpenOptions,
    RebaseOptions,
    RepairOptions,
    RetentionOptions,
    SearchOptions,
    TrashOptions,
    UpdateOptions,
)
from sessiond_client.upkeep import (
    READ_FOREST,
    READ_HITS,
    READ_REPAIRED,
    READ_RETIRED,
    READ_TRASH,
    READ_VERIFIED,
    Forest,
    Hits,
    Repaired,
    Retired,
    TrashPage,
    Verified,
)

__all__ = ["AsyncSessions"]


class AsyncSessions(AsyncAsking):
    """Makes, finds, keeps and ends sessions."""

    async def create(self, cwd: str, **options: Unpack[CreateOptions]) -> Created:
        """Makes a session."""
        return await self._ask("session/create", READ_CREATED, {"cwd": cwd, **options})

    async def open(self, **options: Unpack[OpenOptions]) -> SessionInfo:
        """Opens a session by `session_id`, `path` or `entry_id`."""
        return await self._ask("session/open", READ_SESSION, options)

    async def close(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Says that this client needs the session no more. (To end the client: `disconnect`.)"""
        return await self._ask("session/close", READ_NOTHING, {"session_id": session_id, **options})

    async def get(self, session_id: str, **options: Unpack[Timed]) -> SessionInfo:
        """What is known of the session."""
        return await self._ask("session/get", READ_SESSION, {"session_id": session_id, **options})

    async def update(self, session_id: str, **options: Unpack[UpdateOptions]) -> SessionInfo:
        """Changes what is known of the session as a whole."""
        return await self._ask(
            "session/update", READ_SESSION, {"session_id": session_id, **options}
        )

    async def list(self, **options: Unpack[ListOptions]) -> SessionPage:
        """The sessions, newest first."""
        return await self._ask("session/list", READ_SESSION_PAGE, options)

    async def resolve(self, ref: str, **options: Unpack[Timed]) -> SessionInfo:
        """The session that somebody means: by id, the beginning of one, or title."""
        return await self._ask("session/resolve", READ_SESSION, {"ref": ref, **options})

    async def continue_recent(self, **options: Unpack[ContinueOptions]) -> Created:
        """The conversation to go on with; made in `cwd` if that has none."""
        return await self._ask("session/continue_recent", READ_CREATED, options)

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> Hits:
        """Where something was said, best first."""
        return await self._ask("session/search", READ_HITS, {"query": query, **options})

    async def catalog_forest(self, **options: Unpack[ForestOptions]) -> Forest:
        """The sessions by descent."""
        return await self._ask("catalog/forest", READ_FOREST, options)

    async def archive(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Keeps the session to be read: out of lists, refused to every change."""
        return await self._ask(
            "session/archive", READ_NOTHING, {"session_id": session_id, **options}
        )

    async def unarchive(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Puts it back among the others."""
        return await self._ask(
            "session/unarchive", READ_NOTHING, {"session_id": session_id, **options}
        )

    async def delete(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Moves the session to the trash."""
        return await self._ask(
            "session/delete", READ_NOTHING, {"session_id": session_id, **options}
        )

    async def trash(self, **options: Unpack[TrashOptions]) -> TrashPage:
        """The deleted sessions, those begun last first."""
        return await self._ask("session/trash", READ_TRASH, options)

    async def restore(self, session_id: str, **options: Unpack[Timed]) -> SessionInfo:
        """Brings a deleted session back from the trash."""
        return await self._ask(
            "session/restore", READ_SESSION, {"session_id": session_id, **options}
        )

    async def forget(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Takes a session outside the profile out of the catalog; its file stays as it is."""
        return await self._ask(
            "session/forget", READ_NOTHING, {"session_id": session_id, **options}
        )

    async def purge(self, session_id: str, **options: Unpack[Timed]) -> None:
        """Removes a deleted session for good."""
        return await self._ask("session/purge", READ_NOTHING, {"session_id": session_id, **options})

    async def signal(self, session_id: str, kind: str, **options: Unpack[SignalOptions]) -> None:
        """Tells all who watch with `signals=True`; stored nowhere, and never sent twice."""
        return await self._ask(
            "session/signal", READ_NOTHING, {"session_id": session_id, "kind": kind, **options}
        )

    async def presence(self, session_id: str, **options: Unpack[PresenceOptions]) -> Everybody:
        """Says in which `state` this client is here, until its connection ends; gives who is."""
        return await self._ask(
            "session/presence", READ_PRESENT, {"session_id": session_id, **options}
        )

    async def verify(self, session_id: str, **options: Unpack[Timed]) -> Verified:
        """What is wrong with the session's file."""
        return await self._ask(
            "session/verify", READ_VERIFIED, {"session_id": session_id, **options}
        )

    async def repair(self, session_id: str, **options: Unpack[RepairOptions]) -> Repaired:
        """A file without what does not parse; a dry run unless `dry_run=False`."""
        return await self._ask(
            "session/repair", READ_REPAIRED, {"session_id": session_id, **options}
        )

    async def retention_run(
        self, max_age_hours: float, **options: Unpack[RetentionOptions]
    ) -> Retired:
        """What nobody changed for so long goes to the trash; a dry run unless `dry_run=False`."""
        return await self._ask(
            "retention/run", READ_RETIRED, {"max_age_hours": max_age_hours, **options}
        )

    async def fork(self, session_id: str, **options: Unpack[ForkOptions]) -> SessionInfo:
        """Makes a session of what another one holds."""
        return await self._ask("session/fork", READ_SESSION, {"session_id": session_id, **options})

    async def rebase(self, session_id: str, **options: Unpack[RebaseOptions]) -> SessionInfo:
        """Makes a session of chosen entries, in the order they are given in."""
        return await self._ask(
            "session/rebase", READ_SESSION, {"session_id": session_id, **options}
        )

    async def plan_merge(
        self, session_id: str, other_session_id: str, **options: Unpack[Timed]
    ) -> MergePlan:
        """The prompt for the text of a merge."""
        named = {"session_id": session_id, "other_session_id": other_session_id}
        return await self._ask("session/plan_merge", READ_MERGE_PLAN, {**named, **options})

    async def merge(
        self, session_id: str, other_session_id: str, text: str, **options: Unpack[MergeOptions]
    ) -> Merged:
        """Says here, or in a new session, what there is to say of both."""
        named = {"session_id": session_id, "other_session_id": other_session_id, "text": text}
        return await self._ask("session/merge", READ_MERGED, {**named, **options})

    async def import_(self, **options: Unpack[ImportOptions]) -> Imported:
        """Makes a session of a file or of `content`."""
        return await self._ask("session/import", READ_IMPORTED, options)

    async def export(self, session_id: str, **options: Unpack[ExportOptions]) -> Exported:
        """The session as a file or as content."""
        return await self._ask(
            "session/export", READ_EXPORTED, {"session_id": session_id, **options}
        )

    async def ping(self, **options: Unpack[Timed]) -> Any:
        """Whether the daemon answers."""
        return await self._ask("server/ping", READ_ANY, options)

    async def info(self, **options: Unpack[Timed]) -> Any:
        """Version, limits and state of the daemon."""
        return await self._ask("server/info", READ_ANY, options)

    async def stats(self, **options: Unpack[Timed]) -> Any:
        """The daemon's counters."""
        return await self._ask("server/stats", READ_ANY, options)

    async def discover(self, **options: Unpack[Timed]) -> Any:
        """The OpenRPC document of what the daemon speaks."""
        return await self._ask("rpc.discover", READ_ANY, options)

    async def stop(self, **options: Unpack[Timed]) -> Any:
        """Asks the daemon to drain and end."""
        return await self._ask("server/stop", READ_ANY, options)
