"""A head of a session: what a model sees there, and changes of it that depend on what was seen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

from msgspec import Struct

from sessiond_client.aio import Client
from sessiond_client.errors import RpcError
from sessiond_client.openai_agents.items import entry_of, message_of
from sessiond_client.openai_agents.reading import Step, newest_first

__all__ = ["HeadOfSession", "Snapshot", "View", "until_done"]

T = TypeVar("T")


class View(Struct, frozen=True):
    """The newest items of a head, oldest first, and the leaf at which they were read.

    `is_complete` tells that no item comes before them; False where nothing more was read.
    """

    leaf_id: str | None
    steps: list[Step]
    is_complete: bool

    @property
    def items(self) -> list[Any]:
        """Items of all steps."""
        return [item for step in self.steps for item in step.items]

    def place(self, number: int) -> tuple[Step, int]:
        """Return the step that has an item, and the place of the item in the step."""
        for step in self.steps:
            if number < len(step.items):
                return step, number
            number -= len(step.items)
        raise IndexError(number)

    def behind(self, entry_id: str | None) -> list[Any] | None:
        """Return the items behind an entry, of all entries for None; None if the entry is not there."""
        if entry_id is None:
            return self.items
        ids = [step.entry["id"] for step in self.steps]
        if entry_id not in ids:
            return None
        at = len(ids) - ids[::-1].index(entry_id)
        return [item for step in self.steps[at:] for item in step.items]


class Snapshot(Struct, frozen=True):
    """The newest items of a head, and a function that replaces the last of them.

    `replace_suffix(start, items)` returns False, and changes nothing, if the head has moved.
    """

    items: list[Any]
    complete: bool
    replace_suffix: Callable[[int, list[Any]], Awaitable[bool]]


class HeadOfSession(Struct, frozen=True):
    """A head on which a client works. Each change happens as a whole, or not at all."""

    client: Client
    session_id: str
    name: str

    async def leaf_id(self) -> str | None:
        """Return the entry at which the head stands."""
        heads = await self.client.heads(self.session_id)
        return next((head.leaf_id for head in heads if head.name == self.name), None)

    async def view(self, wanted: int | None = None) -> View:
        """Return what a model sees, or at least as many of the newest items as are wanted."""
        steps: list[Step] = []
        count, is_complete = 0, True
        found = newest_first(self.client, self.session_id, self.name, wanted)
        async with aclosing(found):
            async for step in found:
                steps.append(step)
                count += len(step.items)
                if wanted is not None and count >= wanted:
                    is_complete = False
                    break
        return View(steps[0].entry["id"] if steps else None, steps[::-1], is_complete)

    async def snapshot(self, limit: int) -> Snapshot:
        """Return at most so many of the newest items."""
        view = await self.view(limit + 1)
        known = view.items
        before = max(0, len(known) - limit)

        async def replace_suffix(start: int, items: list[Any]) -> bool:
            if before + start >= len(known):
                return False
            try:
                await self.replace_from(view, before + start, items)
            except RpcError as error:
                if error.kind != "precondition_failed":
                    raise
                return False
            return True

        return Snapshot(known[before:], view.is_complete, replace_suffix)

    async def replace(self, items: list[Any], leaf_id: str | None) -> None:
        """Replace all that a model sees by items.

        Raises RpcError (precondition_failed) if the head does not stand at the leaf any more.
        """
        expected = {"leaf_id": leaf_id}
        if leaf_id is not None and items:
            messages = [message_of(item) for item in items]
            await self.client.compact(
                self.session_id, messages=messages, head=self.name, expected=expected
            )
        elif items:
            await self._append(items, expected)
        else:
            await self.client.reset(self.session_id, head=self.name, expected=expected)

    async def replace_from(self, view: View, first: int, items: list[Any]) -> None:
        """Replace the items of a view, from one of them on, by other items.

        Raises RpcError (precondition_failed) if the head has moved since it was read.
        """
        step, place = view.place(first)
        expected = {"leaf_id": view.leaf_id}
        if step.is_compacted or (view.is_complete and first == 0):
            whole = view if view.is_complete else await self.view()
            kept = len(whole.items) - len(view.items) + first
            await self.replace(whole.items[:kept] + items, view.leaf_id)
        elif rest := step.items[:place] + items:
            await self._append(rest, expected, parent_id=step.parent_id)
        else:
            await self.client.rewind(
                self.session_id, step.parent_id, head=self.name, expected=expected
            )

    async def _append(
        self, items: list[Any], expected: dict[str, str | None], **place: Any
    ) -> None:
        entries = [entry_of(item) for item in items]
        await self.client.append(
            self.session_id, entries=entries, head=self.name, expected=expected, **place
        )


async def until_done(act: Callable[[], Awaitable[T]]) -> T:
    """Do what depends on a head's leaf; again if another client moved the head meanwhile."""
    while True:
        try:
            return await act()
        except RpcError as error:
            if error.kind != "precondition_failed":
                raise
