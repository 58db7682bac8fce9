"""SessiondSession: the Session protocol of the OpenAI Agents SDK on a head of a session.

Nothing is deleted: `pop_item` and `clear_session` move the head, and what stood there stays in the
tree, where `sessiond tree` shows it and a branch leads back. Runners, agents of other makes and
editors may work on one session at once: what one of them adds, all of them get.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from agents.memory.session import SessionABC
from agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from anyio import to_thread

from sessiond_client.aio import Client, connect
from sessiond_client.generated.options import CreateOptions
from sessiond_client.openai_agents.heads import HeadOfSession, Snapshot, until_done
from sessiond_client.openai_agents.items import entry_of

__all__ = ["SessiondSession"]

# What one append may hold.
_ENTRIES_MAX: Final = 512
_IDS: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")


class _Readings(NamedTuple):
    """Leaves at which a head of a session was read."""

    session_id: str
    head: str
    before_last: str | None
    last: str | None


# The last two readings in a task. A compaction reads, asks a model, reads again and replaces in one task,
# while other tasks read and append: it knows what the reading before the last one saw.
_READINGS: ContextVar[_Readings | None] = ContextVar("readings", default=None)


class SessiondSession(SessionABC):
    """A conversation of the SDK that is kept by sessiond.

    `session_id` may be any text; one that is no id of a session (8 to 128 characters of
    A-Z a-z 0-9 _ -) stands for the session with an id made of the text, and becomes its title. The
    session is made at its first use. Without a `client` the user's daemon is found, or started.
    """

    def __init__(
        self,
        session_id: str,
        *,
        client: Client | None = None,
        head: str = "main",
        cwd: str | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self.head = head
        is_id = _IDS.fullmatch(session_id) is not None
        self.daemon_id = (
            session_id if is_id else f"agents-{sha256(session_id.encode()).hexdigest()[:24]}"
        )
        """The id of the session in sessiond."""
        self._options: CreateOptions = {
            "session_id": self.daemon_id,
            "if_exists": "open",
            "persist": "immediate",
        }
        if not is_id:
            self._options["title"] = session_id
        self._cwd = cwd
        self._client = connect() if client is None else client
        self._is_own = client is None
        self._is_made = False

    async def close(self) -> None:
        """End the connection, unless the client was given."""
        if self._is_own:
            self._client.disconnect()

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items that a model sees, oldest first; with a limit the newest ones.

        Reads the path from its leaf, and no further than the limit or the last compaction.
        """
        return await self._items(await self._head(), limit)

    async def add_items(self, items: list[Any]) -> None:
        """Store items below the head's leaf: all or none (of each 512), once, on disk before the return.

        Raises ValueError for an item that is no JSON; then nothing is stored.
        """
        entries = [entry_of(item) for item in items]
        client = await self._made()
        for first in range(0, len(entries), _ENTRIES_MAX):
            part = entries[first : first + _ENTRIES_MAX]
            await client.append(self.daemon_id, entries=part, head=self.head)

    async def pop_item(self) -> Any | None:
        """Move the head in front of its newest item, and return the item; None if there is none."""
        head = await self._head()

        async def pop() -> Any | None:
            view = await head.view(1)
            items = view.items
            if not items:
                return None
            await head.replace_from(view, len(items) - 1, [])
            return items[-1]

        return await until_done(pop)

    async def clear_session(self) -> None:
        """Move the head before the first entry."""
        client = await self._made()
        await client.reset(self.daemon_id, head=self.head)

    async def replace_items(self, items: list[Any]) -> None:
        """Replace what a model sees by items, in one step: a compaction entry, or none of it."""
        head = await self._head()

        async def replace() -> None:
            await head.replace(items, await head.leaf_id())

        await until_done(replace)

    # -- what the SDK's OpenAIResponsesCompactionSession asks a store for --------------------

    async def _read_compaction_items(self, _limit: int | None) -> tuple[list[Any], bool]:
        """Return the items that a compaction is about. Without this, the SDK trusts an old reading."""
        return await self.get_items(), False

    async def _get_compaction_snapshot(self, limit: int, **_: Any) -> Snapshot:
        """Return the newest items, and how to replace the last of them if the head has not moved."""
        return await (await self._head()).snapshot(limit)

    async def _atomic_replace_items(self, items: list[Any]) -> bool:
        """Replace the items that this task read; what other clients added since stays behind.

        Raises RuntimeError if the head does not continue what was read.
        """
        head = await self._head()
        seen = _READINGS.get()
        if seen is None or (seen.session_id, seen.head) != (self.daemon_id, head.name):
            raise RuntimeError("this session was not read before its items are replaced")

        async def replace() -> None:
            view = await head.view()
            later = view.behind(seen.before_last)
            if later is None:
                raise RuntimeError(
                    "another client took back or compacted what was read: read again"
                )
            await head.replace(items + later, view.leaf_id)

        await until_done(replace)
        return True

    async def _items(self, head: HeadOfSession, limit: int | None) -> list[Any]:
        count = resolve_session_limit(limit, self.session_settings)
        if count is not None and count <= 0:
            self._note_reading(head, await head.leaf_id())
            return []
        view = await head.view(count)
        self._note_reading(head, view.leaf_id)
        return view.items if count is None else view.items[-count:]

    def _note_reading(self, head: HeadOfSession, leaf_id: str | None) -> None:
        seen = _READINGS.get()
        is_again = seen is not None and (seen.session_id, seen.head) == (head.session_id, head.name)
        before = seen.last if seen is not None and is_again else leaf_id
        _READINGS.set(_Readings(head.session_id, head.name, before, leaf_id))

    async def _head(self, name: str | None = None) -> HeadOfSession:
        return HeadOfSession(await self._made(), self.daemon_id, name or self.head)

    async def _made(self) -> Client:
        """Return the client, once the session exists."""
        if not self._is_made:
            cwd = self._cwd or str(await to_thread.run_sync(Path.cwd))
            await self._client.create(cwd, **self._options)
            self._is_made = True
        return self._client
