"""The turns that a client keeps from events: a second implementation of the rules of protocol.md.

The view knows events, signals of one agent and presence alone, in native files with messages in pi's shape.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["LiveTurns"]

Json = dict[str, Any]
_RECORDS: Final = ("label", "session_info", "leaf")
_FAILED: Final = ("error", "aborted")
_STREAMING: Final = {"thinking", "executing", "streaming"}


class LiveTurns:
    """The turns of one head, kept current by `take` for each event."""

    def __init__(self, head: str = "main") -> None:
        self.head = head
        self.states: list[str] = []
        """States of the clients that are present on this head."""
        self._entries: dict[str, Json] = {}
        self._parents: dict[str, str | None] = {}
        self._leaf: str | None = None
        self._so_far: list[Json] = []

    def take(self, event: Json) -> None:
        """Take the params of a `session/event`."""
        entry = event["entry"]
        self._entries[entry["id"]] = entry
        self._parents[entry["id"]] = self._resolved(entry["parent_id"])
        if entry["type"] == "leaf":
            self._parents[entry["id"]] = self._resolved(entry["target_id"])
        if event.get("head") == self.head:
            self._leaf = event["leaf_id"]
            self._so_far.clear()

    def take_presence(self, told: Json) -> None:
        """Take the params of a `session/presence`."""
        clients = told["clients"]
        self.states = [one["state"] for one in clients if one.get("head", "main") == self.head]
        if not _STREAMING & {*self.states}:
            self._so_far.clear()

    def take_signal(self, told: Json) -> None:
        """Take the params of a `session/signal`."""
        if told["kind"] != "delta" or not _STREAMING & {*self.states}:
            return
        word, text = told["data"].get("type", "text"), told["data"]["text"]
        if self._so_far and self._so_far[-1]["type"] == word:
            self._so_far[-1]["content"] += text
        else:
            self._so_far.append({"type": word, "content": text})

    def chat(self) -> list[Json]:
        """Return the turns as the chat view has them, without seqs."""
        path: list[Json] = []
        at = self._leaf
        while at is not None:
            path.insert(0, self._entries[at])
            at = self._parents[at]
        turns: list[list[Json]] = []
        for entry in path:
            role = _role(entry)
            if role == "user" or (not turns and role in ("assistant", "toolResult")):
                turns.append([])
            if turns:
                turns[-1].append(entry)
        return [self._turn(turn, is_last=turn is turns[-1]) for turn in turns]

    def _resolved(self, entry_id: str | None) -> str | None:
        while entry_id is not None and self._entries[entry_id]["type"] in _RECORDS:
            entry_id = self._parents[entry_id]
        return entry_id

    def _turn(self, entries: list[Json], *, is_last: bool) -> Json:
        status = self._status(entries, is_last=is_last)
        results = [block for entry in entries for block in _results(entry)]
        is_over = status in ("done", "error")
        request: list[Json] = []
        response: list[Json] = []
        for entry in entries:
            (request if _role(entry) == "user" else response).extend(
                _blocks(entry, results, is_over=is_over)
            )
        if status == "streaming":
            response = [*response, *map(dict, self._so_far)]
        return {
            "id": entries[0]["id"],
            "request": request,
            "response": response,
            "status": status,
            "timestamp": entries[0]["timestamp"],
        }

    def _status(self, entries: list[Json], *, is_last: bool) -> str:
        said = [one for one in entries if _role(one) in ("user", "assistant", "toolResult")]
        answers = [one["message"] for one in said if _role(one) == "assistant"]
        if "turn_status" in said[-1]:
            status: str = said[-1]["turn_status"]
        elif answers and answers[-1].get("stopReason") in _FAILED:
            status = "error"
        elif not is_last or (_role(said[-1]) == "assistant" and not _of(answers[-1], "toolCall")):
            status = "done"
        else:
            status = "pending"
        works = is_last and _STREAMING & {*self.states}
        return "streaming" if status == "pending" and works else status


def _role(entry: Json) -> str | None:
    return entry["message"]["role"] if entry["type"] == "message" else None


def _results(entry: Json) -> list[Json]:
    return [entry["message"]] if _role(entry) == "toolResult" else []


def _of(message: Json, word: str) -> list[Json]:
    content = message["content"]
    return [] if isinstance(content, str) else [one for one in content if one["type"] == word]


def _blocks(entry: Json, results: list[Json], *, is_over: bool) -> list[Json]:
    if "blocks" in entry:
        stored: list[Json] = entry["blocks"]
        return stored
    if entry["type"] == "branch_summary":
        told = {"type": "status", "content": entry["summary"], "meta": {"kind": "branch_summary"}}
        return [told] if entry["summary"] else []
    if entry["type"] != "message" or _role(entry) == "toolResult":
        return []
    message = entry["message"]
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    shown = [_block(one, results, is_over=is_over) for one in content]
    if message.get("stopReason") in _FAILED:
        why = message.get("errorMessage") or message["stopReason"]
        shown.append({"type": "error", "content": why})
    return [one for one in shown if one["type"] != "text" or one["content"]]


def _block(block: Json, results: list[Json], *, is_over: bool) -> Json:
    if block["type"] in ("text", "thinking"):
        return {"type": block["type"], "content": block[block["type"]]}
    found = next((one for one in results if one["toolCallId"] == block["id"]), None)
    meta = {"name": block["name"], "id": block["id"], "input": block["arguments"]}
    if found is None:
        return {
            "type": "tool",
            "content": "",
            "meta": meta | {"state": "error" if is_over else "running"},
        }
    said = "\n".join(one["text"] for one in found["content"])
    meta["state"] = "error" if found["isError"] else "done"
    return {"type": "tool", "content": said, "meta": meta}
