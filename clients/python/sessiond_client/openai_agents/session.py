"""SessiondSession: the Session protocol of the OpenAI Agents SDK on a head of a session.

Nothing is deleted: `pop_item` and `clear_session` move the head, and what stood there stays in the
tree, where `sessiond tree` shows it and a branch leads back. Runners, agents of other makes and
editors may work on one session at once: what one of them adds, all of them get.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from agents.memory.session import SessionABC
from agents.memory.session_settings import (
    SessionSettings,
    coerce_session_settings,
    resolve_session_limit,
)
from anyio import to_thread

from sessiond_client.aio import Client, connect
from sessiond_client.errors import RpcError
from sessiond_client.generated.options import CreateOptions
from sessiond_client.openai_agents.items import entry_of, message_of
from sessiond_client.openai_agents.reading import Step, newest_first

__all__ = ["SessiondSession"]

T = TypeVar("T")

# What one append may hold.
_ENTRIES_MAX: Final = 512
_IDS: Final = re.compile(r"[A-Za-z0-9_-]{8,128}")


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
        count = resolve_session_limit(limit, self.session_settings)
        if count is not None and count <= 0:
            return []
        found: list[Any] = []
        async for step in newest_first(await self._made(), self.daemon_id, self.head, count):
            found += reversed(step.items)
            if count is not None and len(found) >= count:
                break
        return found[:count][::-1]

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
        return await self._at_the_leaf(self._pop)

    async def clear_session(self) -> None:
        """Move the head before the first entry."""
        client = await self._made()
        await client.reset(self.daemon_id, head=self.head)

    async def replace_items(self, items: list[Any]) -> None:
        """Replace what a model sees by items, in one step: a compaction entry, or none of it."""
        await self._at_the_leaf(lambda client, leaf_id: self._replace(client, items, leaf_id))

    async def _replace(self, client: Client, items: list[Any], leaf_id: str | None) -> None:
        if leaf_id is not None and items:
            await self._compact(client, [message_of(item) for item in items], leaf_id)
        elif items:
            await self._append(client, [entry_of(item) for item in items], leaf_id)
        else:
            expected = {"leaf_id": leaf_id}
            await client.reset(self.daemon_id, head=self.head, expected=expected)

    async def _pop(self, client: Client, leaf_id: str | None) -> Any | None:
        async for step in newest_first(client, self.daemon_id, self.head, 1):
            if step.items:
                await self._drop(client, step, leaf_id)
                return step.items[-1]
        return None

    async def _drop(self, client: Client, step: Step, leaf_id: str | None) -> None:
        """Take the last item of an entry, and everything behind, from the head."""
        rest = step.items[:-1]
        expected = {"leaf_id": leaf_id}
        if not rest:
            await client.rewind(self.daemon_id, step.parent_id, head=self.head, expected=expected)
        elif step.entry["type"] == "compaction":
            await self._compact(client, [message_of(item) for item in rest], leaf_id)
        else:
            entries = [entry_of(item) for item in rest]
            await self._append(client, entries, leaf_id, parent_id=step.parent_id)

    async def _compact(self, client: Client, messages: list[Any], leaf_id: str | None) -> None:
        await client.compact(
            self.daemon_id, messages=messages, head=self.head, expected={"leaf_id": leaf_id}
        )

    async def _append(
        self, client: Client, entries: list[Any], leaf_id: str | None, **place: Any
    ) -> None:
        expected = {"leaf_id": leaf_id}
        await client.append(
            self.daemon_id, entries=entries, head=self.head, expected=expected, **place
        )

    async def _at_the_leaf(self, act: Callable[[Client, str | None], Coroutine[Any, Any, T]]) -> T:
        """Do what depends on the head's leaf; again if another client moved the head meanwhile."""
        client = await self._made()
        while True:
            try:
                return await act(client, await self._leaf(client))
            except RpcError as error:
                if error.kind != "precondition_failed":
                    raise

    async def _leaf(self, client: Client) -> str | None:
        heads = await client.heads(self.daemon_id)
        return next((head.leaf_id for head in heads if head.name == self.head), None)

    async def _made(self) -> Client:
        """Return the client, once the session exists."""
        if not self._is_made:
            cwd = self._cwd or str(await to_thread.run_sync(Path.cwd))
            await self._client.create(cwd, **self._options)
            self._is_made = True
        return self._client
