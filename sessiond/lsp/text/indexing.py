"""Index of an open document: follows each edit, in a thread where that takes long.

Law: a line is parsed once. An edit costs the parsing of its own lines; only an edit of a large part
of the text has the index made anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import anyio
from anyio import to_thread

from sessiond.lsp.text.disposal import free_in_thread
from sessiond.lsp.text.lines import Index, LineFacts, facts_of
from sessiond.lsp.text.text import Edit, Text

# An edit within both bounds is followed at once, which takes a few milliseconds.
_SHORT_LINES: Final = 1_000
_SHORT_CHARS: Final = 256 * 1024
# An edit of more lines costs as much as a new index.
_REMAKE_LINES: Final = 10_000
# Edits that may wait for a thread.
WAITING_MAX: Final = 1_000


class LiveIndex:
    """The index of a text, made for the first question."""

    def __init__(self, text: Text) -> None:
        self.lines_parsed = 0
        """Number of lines parsed so far."""
        self.moves = 0
        """Number of changes so far after which an entry may be in another line."""
        self._text = text
        self._index: Index | None = None
        self._waiting: deque[Edit] = deque()
        self._makings = 0
        self._working = anyio.Lock()

    def edited(self, edit: Edit) -> None:
        """Follow an edit that the text has already."""
        if max(edit.last - edit.first, len(edit.lines)) > _REMAKE_LINES:
            self._forget()
            return
        if self._index is None and not self._working.locked():
            return
        self._waiting.append(edit)
        if len(self._waiting) > WAITING_MAX:
            self._forget()
        while self._index is not None and self._waiting and not self._working.locked():
            if not _is_short(self._waiting[0]):
                break
            self._apply(self._index, self._waiting[0], facts_of(self._waiting[0].lines))

    async def current(self) -> Index:
        """Return the index of the present text, good until the next edit."""
        async with self._working:
            while self._index is None or self._waiting:
                makings = self._makings
                if self._index is None:
                    self._waiting.clear()
                    lines = self._text.copy()
                    made = await to_thread.run_sync(Index, lines)
                    self.lines_parsed += len(lines)
                    if self._makings == makings:
                        self._index = made
                else:
                    edit = self._waiting[0]
                    facts = await to_thread.run_sync(facts_of, edit.lines)
                    if self._makings == makings:
                        self._apply(self._index, edit, facts)
            return self._index

    def _apply(self, index: Index, edit: Edit, facts: Sequence[LineFacts]) -> None:
        has_all_ids = all(found.entry_id is not None for found in facts)
        self.moves += not has_all_ids or index.facts(edit.first, edit.last) != facts
        index.splice(edit.first, edit.last, facts)
        self.lines_parsed += len(facts)
        self._waiting.popleft()

    def _forget(self) -> None:
        """Have the next question make the index anew."""
        outdated: list[Any] = [self._index]
        self._index = None
        free_in_thread(outdated)
        self._waiting.clear()
        self._makings += 1
        self.moves += 1


def _is_short(edit: Edit) -> bool:
    return len(edit.lines) <= _SHORT_LINES and sum(map(len, edit.lines)) <= _SHORT_CHARS
