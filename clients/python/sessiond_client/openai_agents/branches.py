"""BranchingSession: branches of the OpenAI Agents SDK as heads of a session, and its turns.

Names and results are those of the SDK's AdvancedSQLiteSession. A branch shares its beginning with the
branch that it left, in one tree, instead of a copy: a turn that two branches share counts for both,
and once in their sum.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any, Final

from agents.result import RunResultBase
from msgspec import to_builtins

from sessiond_client.errors import RpcError
from sessiond_client.openai_agents.reading import Step
from sessiond_client.openai_agents.session import SessiondSession
from sessiond_client.openai_agents.turns import (
    FIGURES,
    USAGE_TYPE,
    TurnUsage,
    item_type,
    preview,
    stored_usage,
    text_of,
    tool_counts,
    tool_name,
    turns_of,
    usage_of,
    user_text,
)

__all__ = ["BranchingSession"]

_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]{1,64}")
_LOGGER: Final = logging.getLogger("sessiond_client.openai_agents")

Json = dict[str, Any]


class BranchingSession(SessiondSession):
    """A session with the branches and turns of the SDK's AdvancedSQLiteSession."""

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[Any]:
        """Return the items of the current branch or another one, as SessiondSession does."""
        return await self._items(await self._head(branch_id), limit)

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
        turns = turns_of(await self._steps(self.head))
        if not 1 <= turn_number <= len(turns):
            raise ValueError(f"turn {turn_number} does not exist: there are {len(turns)}")
        place, unused = turns[turn_number - 1].parent_id, {"leaf_id": None}
        try:
            await client.branch(self.daemon_id, place, head=name, expected=unused)
        except RpcError as error:
            if error.kind != "precondition_failed":
                raise
            raise ValueError(f"there is a branch {name!r} already") from error
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
        for name in await self._names():
            steps = await self._steps(name)
            found.append(
                {
                    "branch_id": name,
                    "message_count": sum(len(step.items) for step in steps),
                    "user_turns": len(turns_of(steps)),
                    "is_current": name == self.head,
                    "created_at": steps[0].entry.get("timestamp") if steps else None,
                }
            )
        return found

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[Json]:
        """Return each turn: turn, content (its beginning), full_content, timestamp, can_branch."""
        turns = turns_of(await self._steps(branch_id or self.head))
        return [
            {
                "turn": number,
                "content": preview(user_text(step) or ""),
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
        return [turn for turn in turns if wanted.search(text_of(turn["full_content"]))]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return type and tool_name of the items of each turn, by its number."""
        return {
            number: [{"type": item_type(item), "tool_name": tool_name(item)} for item in items]
            for number, items in (await self._items_by_turn(branch_id)).items()
        }

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return (tool, number of its calls, turn) for each tool of each turn."""
        return [
            (name, count, number)
            for number, items in (await self._items_by_turn(branch_id)).items()
            for name, count in sorted(tool_counts(items).items())
        ]

    async def store_run_usage(self, result: RunResultBase) -> None:
        """Store the tokens of a run with the current turn; again for a turn replaces what was stored.

        An error is logged and not raised: a run that has ended is not undone by its figures.
        """
        head = await self._head()
        try:
            turns = turns_of((await head.view()).steps)
            if turns:
                turn_id = turns[-1].entry["id"]
                usage = to_builtins(usage_of(turn_id, result.context_wrapper.usage))
                entry = {"type": "custom", "custom_type": USAGE_TYPE, "data": usage}
                await head.client.append(head.session_id, entries=[entry], head=head.name)
        except (RpcError, OSError, ValueError) as error:
            _LOGGER.warning("the usage of a run was not stored: %s", type(error).__name__)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return requests, tokens and total_turns of a branch, or of all; None if nothing was stored."""
        names = [branch_id] if branch_id is not None else await self._names()
        found: dict[str, TurnUsage] = {}
        for name in names:
            found |= {usage.turn_id: usage for _, usage in await self._usage(name)}
        if not found:
            return None
        sums = {name: sum(getattr(usage, name) for usage in found.values()) for name in FIGURES}
        return {**sums, "total_turns": len(found)}

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[Json] | Json:
        """Return the figures of each turn with usage, or of one turn: {} if none were stored for it."""
        found: dict[int, Json] = {}
        for number, usage in await self._usage(branch_id or self.head):
            found[number] = to_builtins(usage)
            del found[number]["turn_id"]
        if user_turn_number is not None:
            return found.get(user_turn_number, {})
        return [{"user_turn_number": number, **figures} for number, figures in found.items()]

    async def _usage(self, name: str) -> list[tuple[int, TurnUsage]]:
        """Return the turns of a branch that have usage, and what was stored last for each."""
        view = await (await self._head(name)).view()
        turns = [step.entry["id"] for step in turns_of(view.steps)]
        found = [usage for step in view.steps if (usage := stored_usage(step.entry)) is not None]
        stored = {usage.turn_id: usage for usage in found}
        return [(number, stored[turn]) for number, turn in enumerate(turns, 1) if turn in stored]

    async def _items_by_turn(self, branch_id: str | None) -> dict[int, list[Any]]:
        turns: dict[int, list[Any]] = {}
        number = 0
        for step in await self._steps(branch_id or self.head):
            number += user_text(step) is not None
            turns.setdefault(number, []).extend(step.items)
        return turns

    async def _exists(self, branch_id: str) -> bool:
        return branch_id in await self._names()

    async def _names(self) -> list[str]:
        heads = await (await self._made()).heads(self.daemon_id)
        return [head.name for head in heads]

    async def _steps(self, name: str) -> list[Step]:
        view = await (await self._head(name)).view()
        return [step for step in view.steps if step.items]
