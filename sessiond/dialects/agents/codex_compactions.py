"""Compactions of Codex: a replaced history, or in older files a summary behind the user's messages.

{"type":"compacted","payload":{"message":"","replacement_history":[{"type":"message",…}]}}
{"type":"compacted","payload":{"message":"the summary"}}
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw, Struct

from sessiond.dialects.agents.codex_items import message_of, said_by_user
from sessiond.dialects.agents.replies import joined, named, one_message
from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.limits import CODEX_PROMPTS_BYTES_MAX
from sessiond.model.entries import Compaction
from sessiond.model.parsed_message import ParsedMessage


class _Scope(Struct):
    """The prompts of the context since a line, and how many of them are no longer kept."""

    line: int = 0
    dropped: int = 0


class Prompts:
    """The user's messages of the context, which a compaction of the old form keeps.

    The messages have CODEX_PROMPTS_BYTES_MAX bytes at most; the oldest ones fall out. Those before a
    replaced history are hidden until a rollback takes the history back.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[int, Raw]] = deque()
        self._scopes = [_Scope()]
        self._bytes = 0

    @property
    def kept(self) -> Iterable[Raw]:
        """The messages, oldest first."""
        start = self._scopes[-1].line
        return (message for line, message in self._kept if line >= start)

    @property
    def dropped(self) -> int:
        """The number of messages of the context that are no longer kept."""
        return self._scopes[-1].dropped

    def add(self, line: int, message: Raw) -> None:
        """Add the message of a line."""
        # A copy: a slice would keep its whole line in memory. What is too long goes at once.
        is_long = len(message) > CODEX_PROMPTS_BYTES_MAX
        self._kept.append((line, message if is_long else Raw(bytes(message))))
        self._bytes += len(message)
        while self._bytes > CODEX_PROMPTS_BYTES_MAX:
            oldest, gone = self._kept.popleft()
            self._bytes -= len(gone)
            next(one for one in reversed(self._scopes) if one.line <= oldest).dropped += 1

    def replace(self, line: int, said: Iterable[ParsedMessage]) -> None:
        """Take the messages of a history that a line puts in the place of the context."""
        self._scopes.append(_Scope(line))
        for message in said:
            self.add(line, one_message(message))

    def drop_from(self, line: int) -> None:
        """Drop the messages of a line and of all later lines."""
        while self._kept and self._kept[-1][0] >= line:
            self._bytes -= len(self._kept.pop()[1])
        while self._scopes[-1].line >= line:
            self._scopes.pop()


def compaction_of(number: int, payload: dict[str, Raw], prompts: Prompts) -> Compaction:
    """Return the compaction that line `number` states; without a history it keeps the prompts.

    `details` counts by type what the messages lack: an encrypted summary is a mark there.
    """
    history = items(payload.get("replacement_history", b""))
    left_out: Counter[str] = Counter()
    if history is None:
        summary = said_by_user(text(payload.get("message")) or "")
        kept = [*prompts.kept, one_message(summary)]
        if prompts.dropped:
            left_out["message"] = prompts.dropped
    else:
        said = _replaced(history, left_out)
        kept = [one for message in said for one in NATIVE.compose(message, "")]
        prompts.replace(number, [one for one in said if one.role == "user"])
    details = Raw(msgspec.json.encode({"left_out": left_out})) if left_out else UNSET
    return Compaction(messages=kept, details=details)


def _replaced(history: list[Raw], left_out: Counter[str]) -> list[ParsedMessage]:
    """Return the messages of a replaced history; answers in one piece each.

    `left_out` counts the items that say nothing to a reader, by their types.
    """
    found: list[ParsedMessage] = []
    tools: dict[str, str] = {}
    for item in history:
        payload = lenient(item)
        said = message_of(payload, tools)
        if said is None:
            left_out[text(payload.get("type")) or "none"] += 1
        elif said.role == "assistant" and found and found[-1].role == "assistant":
            found[-1] = joined([found[-1], said])
        else:
            found.append(named(said, tools))
    return found
