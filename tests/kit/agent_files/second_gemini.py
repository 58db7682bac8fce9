"""Second reader of Gemini CLI's chats, written from the facts on the format: clear and slow.

Law: this module knows nothing of sessiond, and holds the whole session in memory.

Choices where the facts are silent: each result is a message of its own; a call without a result has no
message; the leaf is the last message that is a user's or the model's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.kit.agent_files.said import (
    Json,
    Reading,
    Said,
    added,
    as_list,
    as_number,
    as_object,
    as_text,
    parsed,
)

MESSAGE_TYPES: Final = ("user", "gemini", "info", "error", "warning")
USAGE_NAMES: Final[tuple[str, ...]] = ("input", "output", "cached", "thoughts", "tool", "total")
UNSEEN: Final = ("/", "?", "<session_context>", "<hook_context>")


@dataclass
class Replay:
    """State of a chat while its operations are replayed."""

    live: list[Json] = field(default_factory=list[Json])
    tree: dict[str, str | None] = field(default_factory=dict[str, str | None])
    versions: dict[str, Json] = field(default_factory=dict[str, Json])
    """Last version of each message that was ever in the list."""
    first_prompts: dict[str, str] = field(default_factory=dict[str, str])
    """Words of the prompts that were appended, in the order of the file."""
    summary: str | None = None
    bad: int = 0

    def take(self, line: Json) -> None:
        """Replay one line."""
        patch = as_object(line.get("$set"))
        if isinstance(patch.get("messages"), list):
            self.live = []
            for message in as_list(patch["messages"]):
                self._put(as_object(message))
        self.summary = as_text(patch.get("summary")) or self.summary
        rewind = as_text(line.get("$rewindTo"))
        if rewind is not None:
            places = self._places(rewind)
            self.live = self.live[: places[0]] if places else []
        if line.get("type") in MESSAGE_TYPES and as_text(line.get("id")) is not None:
            self._put(line)
            if line["type"] == "user" and _seen(line):
                self.first_prompts.setdefault(str(line["id"]), _words(line.get("content")))

    def _put(self, message: Json) -> None:
        message_id = str(message["id"])
        places = self._places(message_id)
        self.versions[message_id] = message
        if places:
            self.live[places[0]] = message
            return
        self.tree.setdefault(message_id, str(self.live[-1]["id"]) if self.live else None)
        self.live.append(message)

    def _places(self, message_id: str) -> list[int]:
        return [place for place, one in enumerate(self.live) if one["id"] == message_id]


def read_gemini(lines: Sequence[bytes], project_root: str | None = None) -> Reading:
    """Return what the whole lines of a chat say; `project_root` is the text of the file .project_root."""
    replay = Replay()
    for line in parsed(lines):
        if line is None:
            replay.bad += 1
        else:
            replay.take(line)
    said = [one for one in replay.live if one["type"] in ("user", "gemini")]
    replies = [one for one in said if one["type"] == "gemini"]
    models = [as_text(one.get("model")) for one in replies]
    sizes = [as_object(one.get("tokens")) for one in replies]
    first = next((words for words in replay.first_prompts.values() if words), None)
    return Reading(
        leaf=str(said[-1]["id"]) if said else None,
        title=replay.summary or first,
        stated_title=replay.summary,
        context=tuple(one for message in said for one in _messages(message)),
        usage=_usage(list(replay.versions.values())),
        tree=replay.tree,
        model=next((one for one in reversed(models) if one), None),
        cwd=project_root,
        prompts=tuple(replay.first_prompts),
        context_tokens=next((as_number(one["total"]) for one in reversed(sizes) if one), None),
        bad=replay.bad,
        more_usage={"live": _usage(replay.live)},
    )


def _usage(messages: Sequence[Json]) -> dict[str, int]:
    sums: dict[str, int] = dict.fromkeys(USAGE_NAMES, 0)
    for message in messages:
        tokens = as_object(message.get("tokens"))
        added(sums, {name: as_number(tokens.get(name)) for name in USAGE_NAMES})
    return sums


def _parts(content: Any) -> list[Json]:
    """Return the parts of a message: content is a text, a part or a list of both."""
    parts = as_list(content) if isinstance(content, list) else [content]
    return [{"text": one} if isinstance(one, str) else as_object(one) for one in parts]


def _texts(content: Any) -> tuple[str, ...]:
    return tuple(str(one["text"]) for one in _parts(content) if one.get("text"))


def _words(content: Any) -> str:
    return "".join(_texts(content))


def _images(content: Any) -> int:
    return sum("inlineData" in one for one in _parts(content))


def _seen(message: Json) -> bool:
    """Return whether the model sees a user's message."""
    content = message.get("content")
    words = _words(content).strip()
    return bool(words or _images(content)) and not words.startswith(UNSEEN)


def _messages(message: Json) -> list[Said]:
    """Return the messages that the model sees of one record: a reply, and the results of its calls."""
    ids = (str(message["id"]),)
    content = message.get("content")
    if message["type"] == "user":
        seen = Said("user", ids, _texts(content), images=_images(content))
        return [seen] if _seen(message) else []
    calls = [as_object(one) for one in as_list(message.get("toolCalls"))]
    thinking: list[str] = []
    for thought in map(as_object, as_list(message.get("thoughts"))):
        thinking += [str(thought.get("subject", "")), str(thought.get("description", ""))]
    asked = tuple(str(one["id"]) for one in calls)
    reply = Said("assistant", ids, _texts(content), asked, tuple(thinking))
    return [reply, *(_result(ids, one) for one in calls if one.get("result") is not None)]


def _result(ids: tuple[str, ...], call: Json) -> Said:
    """Return the result of one call."""
    texts: list[str] = []
    parts = _parts(call.get("result"))
    for part in parts:
        response = as_object(as_object(part.get("functionResponse")).get("response"))
        for name in ("output", "error"):
            if name in response:
                value = response[name]
                texts.append(value if isinstance(value, str) else json.dumps(value))
        texts += [str(part["text"])] if part.get("text") else []
    return Said(
        "tool",
        ids,
        tuple(texts),
        (str(call["id"]),),
        images=_images(parts),
        failed=call.get("status") == "error",
    )
