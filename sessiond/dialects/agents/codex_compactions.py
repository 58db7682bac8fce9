"""Compactions of Codex: a replaced history, or in older files a summary behind the user's messages.

{"type":"compacted","payload":{"message":"","replacement_history":[{"type":"message",…}]}}
{"type":"compacted","payload":{"message":"the summary"}}
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, Raw

from sessiond.dialects.agents.codex_items import message_of, said_by_user
from sessiond.dialects.agents.replies import joined, named, one_message
from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.dialects.native.dialect import NATIVE
from sessiond.limits import CODEX_PROMPTS_BYTES_MAX
from sessiond.model.entries import Compaction
from sessiond.model.parsed_message import ParsedMessage

__all__ = ["Prompts", "compaction_of"]


class Prompts:
    """The user's messages on the path, which a compaction of the old form keeps.

    The messages have CODEX_PROMPTS_BYTES_MAX bytes at most; the oldest ones fall out.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._kept: deque[tuple[int, Raw]] = deque()
        self._bytes = 0

    @property
    def kept(self) -> Iterable[Raw]:
        """The messages, oldest first."""
        return (message for _, message in self._kept)

    def add(self, line: int, message: Raw) -> None:
        """Add the message of a line."""
        # A copy: a slice would keep its whole line in memory.
        self._kept.append((line, Raw(bytes(message))))
        self._bytes += len(message)
        while self._bytes > CODEX_PROMPTS_BYTES_MAX:
            self._bytes -= len(self._kept.popleft()[1])
            self.dropped += 1

    def drop_from(self, line: int) -> None:
        """Drop the messages of a line and of all later lines."""
        while self._kept and self._kept[-1][0] >= line:
            self._bytes -= len(self._kept.pop()[1])


def compaction_of(payload: dict[str, Raw], prompts: Prompts) -> Compaction:
    """Return the compaction that a line states; without a history it keeps the prompts.

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
