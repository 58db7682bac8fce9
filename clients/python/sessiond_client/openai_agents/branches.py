"""BranchingSession: branches of the OpenAI Agents SDK as heads of a session, and its turns.

Names and results are those of the SDK's AdvancedSQLiteSession. A branch shares its beginning with the
branch that it left, in one tree, instead of a copy. Usage is not kept here: sessiond counts what
messages say of theirs (`session/usage`), and the SDK's items say nothing.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import Any, Final, cast

from sessiond_client.aio import Client
from sessiond_client.openai_agents.reading import Step, newest_first
from sessiond_client.openai_agents.session import SessiondSession

__all__ = ["BranchingSession"]

_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]{1,64}")
_PREVIEW: Final = 100

Json = dict[str, Any]


class BranchingSession(SessiondSession):
    """A session with the branches and turns of the SDK's AdvancedSQLiteSession."""

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Make a branch that ends right before a turn, and go on there; return its name.

        Raises ValueError for a turn that does not exist, a name that no head may have (1 to 64 characters of
        A-Z a-z 0-9 _ . / : -), or that a branch has.
        """
        name = branch_name
        if name is None:
            name = f"branch_from_turn_{turn_number}_{time.time_ns() // 1_000_000}"
        client = await self._made()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a branch: 1 to 64 of A-Z a-z 0-9 _ . / : -")
        if await self._exists(name):
            raise ValueError(f"there is a branch {name!r} already")
        turns = [step for step in await self._steps(self.head) if _user_text(step) is not None]
        if not 1 <= turn_number <= len(turns):
            raise ValueError(f"turn {turn_number} does not exist: there are {len(turns)}")
        await client.branch(self.daemon_id, turns[turn_number - 1].parent_id, head=name)
        self.head = name
        return name

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Make a branch before the first turn whose request holds a text. Raises ValueError."""
        turns = await self.find_turns_by_content(search_term)
        if not turns:
            raise ValueError("no turn of the user holds this text")
        return await self.create_branch_from_turn(turns[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go on with another branch. Raises ValueError if there is none of this name."""
        if not await self._exists(branch_id):
            raise ValueError(f"branch {branch_id!r} does not exist")
        self.head = branch_id

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:  # noqa: FBT001, FBT002 - the SDK's signature
        """Drop a branch: its name is gone, its entries stay in the tree.

        Raises ValueError for `main`, for a branch that does not exist, and for the current one unless
        `force` moves this session to `main`.
        """
        if branch_id == "main":
            raise ValueError("the branch main stays")
        client = await self._made()
        if not await self._exists(branch_id):
            raise ValueError(f"branch {branch_id!r} does not exist")
        if branch_id == self.head:
            if not force:
                raise ValueError(f"branch {branch_id!r} is the current one: use force=True")
            self.head = "main"
        await client.branch(self.daemon_id, None, head=branch_id, drop=True)

    async def list_branches(self) -> list[Json]:
        """Return each branch: branch_id, message_count, user_turns, is_current, created_at."""
        found: list[Json] = []
        for head in await (await self._made()).heads(self.daemon_id):
            steps = await self._steps(head.name)
            found.append(
                {
                    "branch_id": head.name,
                    "message_count": sum(len(step.items) for step in steps),
                    "user_turns": sum(_user_text(step) is not None for step in steps),
                    "is_current": head.name == self.head,
                    "created_at": steps[0].entry.get("timestamp") if steps else None,
                }
            )
        return found

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[Json]:
        """Return each turn: turn, content (its beginning), full_content, timestamp, can_branch."""
        steps = await self._steps(branch_id or self.head)
        turns = [step for step in steps if _user_text(step) is not None]
        return [
            {
                "turn": number,
                "content": _preview(_user_text(step) or ""),
                "full_content": step.items[0]["content"],
                "timestamp": step.entry.get("timestamp"),
                "can_branch": True,
            }
            for number, step in enumerate(turns, 1)
        ]

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[Json]:
        """Return the turns whose request holds a text, in any case of ASCII letters."""
        wanted = re.compile(re.escape(search_term), re.IGNORECASE | re.ASCII)
        turns = await self.get_conversation_turns(branch_id)
        return [turn for turn in turns if wanted.search(_text(turn["full_content"]))]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return type and tool_name of the items of each turn, by its number."""
        turns: dict[int, list[dict[str, str | None]]] = {}
        number = 0
        for step in await self._steps(branch_id or self.head):
            number += _user_text(step) is not None
            for item in step.items:
                told = {"type": _item_type(item), "tool_name": _tool_name(item)}
                turns.setdefault(number, []).append(told)
        return turns

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return (tool, number of its calls, turn) for each tool of each turn."""
        by_turn = await self.get_conversation_by_turns(branch_id)
        counts = Counter(
            (number, str(item["tool_name"]))
            for number, items in by_turn.items()
            for item in items
            if item["tool_name"] is not None
        )
        return [(name, count, number) for (number, name), count in sorted(counts.items())]

    async def _exists(self, branch_id: str) -> bool:
        heads = await (await self._made()).heads(self.daemon_id)
        return any(head.name == branch_id for head in heads)

    async def _steps(self, head: str) -> list[Step]:
        client: Client = await self._made()
        found = [step async for step in newest_first(client, self.daemon_id, head)]
        return [step for step in reversed(found) if step.items]


def _user_text(step: Step) -> str | None:
    """Return the text with which a turn begins; None if the entry begins none."""
    first = step.items[0]
    if isinstance(first, dict) and cast("Json", first).get("role") == "user":
        return _text(cast("Json", first).get("content"))
    return None


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[object]", content) if isinstance(content, list) else []
    return " ".join(
        str(cast("Json", part).get("text", "")) for part in parts if isinstance(part, dict)
    )


def _preview(text: str) -> str:
    return f"{text[:_PREVIEW]}..." if len(text) > _PREVIEW else text


def _item_type(item: object) -> str:
    fields = cast("Json", item) if isinstance(item, dict) else {}
    return str(fields.get("role") or fields.get("type") or "unknown")


def _tool_name(item: object) -> str | None:
    fields = cast("Json", item) if isinstance(item, dict) else {}
    kind = str(fields.get("type", ""))
    if not kind.endswith("_call"):
        return None
    return str(fields.get("name") or kind.removesuffix("_call"))
