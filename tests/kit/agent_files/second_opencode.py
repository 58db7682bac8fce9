"""Second reader of opencode's sessions, written from the facts on the format: clear and slow.

Law: this module knows nothing of sessiond, and holds the whole session in memory.

Choices where the facts are silent: each result is a message of its own. A step of an answer that
follows a call is an answer of its own, because the model was asked again. A call that never ended has
a result, since it is sent as an error. An aborted answer has real content if it has a text or a call.
A shell's row is a message of the user, the command behind a `$`. A session has rows of version 2 if any
of them has a place in the order (`seq`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.kit.agent_files.said import (
    Json,
    Reading,
    Said,
    as_list,
    as_number,
    as_object,
    as_text,
)

ASKED: Final = "What did we do so far?"
CLEARED: Final = "[Old tool result content cleared]"
INTERRUPTED: Final = "[Tool execution was interrupted]"
DEFAULT_TITLES: Final = ("New session - ", "Child session - ")
TOLD: Final = ("synthetic", "system", "skill")


@dataclass(frozen=True)
class Stored:
    """A message of a session: its id, its data, and its parts by their ids; a row of version 2 has a kind."""

    id: str
    data: Json
    parts: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])
    kind: str = ""

    @property
    def role(self) -> str | None:
        """Return who says it."""
        return self.kind or as_text(self.data.get("role"))

    def has(self, kind: str) -> bool:
        """Return whether there is a part of a type."""
        return any(part.get("type") == kind for _, part in self.parts)


def read_opencode(path: Path, session_id: str) -> Reading:
    """Return what the database says of a session."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("BEGIN")
        row = _session(connection, session_id)
        newer = _rows(connection, session_id)
        stored = newer or _messages(connection, session_id)
    seen = _not_reverted(stored, row)
    if newer:
        context = [said for one in _since_compaction(seen) for said in _row_says(one)]
    else:
        context = [said for one in _compacted(seen) for said in _message_says(one)]
    title = as_text(row.get("title"))
    stated = None if title is None or title.startswith(DEFAULT_TITLES) else title
    return Reading(
        leaf=seen[-1].id if seen else None,
        title=stated,
        stated_title=stated,
        context=tuple(context),
        usage=_usage(stored),
        tree={},
        cwd=as_text(row.get("directory")),
        prompts=tuple(one.id for one in stored if one.role == "user"),
    )


# -- tables ---------------------------------------------------------------------------------------


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {one["name"] for one in connection.execute(f"PRAGMA table_info({table})")}


def _found(
    connection: sqlite3.Connection, table: str, session_id: str, name: str = "session_id"
) -> list[Json]:
    ask = f"SELECT * FROM {table} WHERE {name} = ?"
    return [dict(one) for one in connection.execute(ask, (session_id,))]


def _session(connection: sqlite3.Connection, session_id: str) -> Json:
    for table in ("session_v2", "session"):
        if _columns(connection, table):
            found = _found(connection, table, session_id, "id")
            if found:
                return found[0]
    raise LookupError(session_id)


def _rows(connection: sqlite3.Connection, session_id: str) -> list[Stored]:
    """Return the rows of version 2, in their order."""
    if "seq" not in _columns(connection, "session_message"):
        return []
    found = sorted(_found(connection, "session_message", session_id), key=lambda one: one["seq"])
    return [Stored(one["id"], _data(one), kind=one["type"]) for one in found]


def _messages(connection: sqlite3.Connection, session_id: str) -> list[Stored]:
    """Return the messages of version 1, in their order, each with its parts."""
    parts: dict[str, list[tuple[str, Json]]] = {}
    for one in sorted(_found(connection, "part", session_id), key=lambda one: str(one["id"])):
        parts.setdefault(one["message_id"], []).append((one["id"], _data(one)))
    found = _found(connection, "message", session_id)
    found.sort(key=lambda one: (one["time_created"], one["id"]))
    return [Stored(one["id"], _data(one), parts.get(one["id"], [])) for one in found]


def _data(row: Json) -> Json:
    return as_object(json.loads(row["data"]))


def _usage(stored: Sequence[Stored]) -> dict[str, int]:
    sums = dict.fromkeys(("input", "output", "reasoning", "cache_read", "cache_write"), 0)
    for one in stored:
        tokens = as_object(one.data.get("tokens"))
        for name in ("input", "output", "reasoning"):
            sums[name] += as_number(tokens.get(name))
        cache = as_object(tokens.get("cache"))
        sums["cache_read"] += as_number(cache.get("read"))
        sums["cache_write"] += as_number(cache.get("write"))
    return sums


# -- which messages -------------------------------------------------------------------------------


def _not_reverted(stored: Sequence[Stored], row: Json) -> list[Stored]:
    """Return the messages, and the parts of the last one, that a revert does not hide."""
    revert = as_object(json.loads(row["revert"])) if row.get("revert") else {}
    seen: list[Stored] = []
    for one in stored:
        if one.id != revert.get("messageID"):
            seen.append(one)
            continue
        ids = [part_id for part_id, _ in one.parts]
        if revert.get("partID") in ids:
            left = one.parts[: ids.index(revert["partID"])]
            seen.append(Stored(one.id, one.data, left, one.kind))
        break
    return seen


def _since_compaction(rows: Sequence[Stored]) -> list[Stored]:
    """Return the rows of version 2 from the newest compaction on that a reader can use."""
    for place in reversed(range(len(rows))):
        if _is_usable(rows[place]):
            return list(rows[place:])
    return list(rows)


def _is_usable(row: Stored) -> bool:
    """Return whether a row is a compaction that any model can read."""
    is_done = row.kind == "compaction" and row.data.get("status") == "completed"
    return is_done and not row.data.get("providerContext")


def _compacted(messages: Sequence[Stored]) -> list[Stored]:
    """Return the messages of version 1 that the model gets, in the order of the newest releases."""
    done = {
        str(one.data.get("parentID")): place
        for place, one in enumerate(messages)
        if one.role == "assistant"
        and one.data.get("summary") is True
        and one.data.get("finish")
        and not one.data.get("error")
    }
    for place in reversed(range(len(messages))):
        one = messages[place]
        if one.role != "user" or one.id not in done or not one.has("compaction"):
            continue
        (part,) = (part for _, part in one.parts if part.get("type") == "compaction")
        ids = [other.id for other in messages]
        tail = as_text(part.get("tail_start_id"))
        start = ids.index(tail) if tail in ids else place
        summary = done[one.id]
        later = [*messages[place + 1 : summary], *messages[summary + 1 :]]
        return [one, messages[summary], *messages[start:place], *later]
    return list(messages)


# -- what a message says --------------------------------------------------------------------------


def _message_says(message: Stored) -> Iterator[Said]:
    if message.role == "user":
        yield from _user((message.id,), [part for _, part in message.parts])
    elif message.role == "assistant" and not _is_dropped(message):
        yield from _steps((message.id,), [part for _, part in message.parts])


def _row_says(row: Stored) -> Iterator[Said]:
    """Yield what a row of version 2 says."""
    data, ids = row.data, (row.id,)
    if row.kind == "user":
        images = sum(map(_is_image, map(as_object, as_list(data.get("files")))))
        yield Said("user", ids, (str(data["text"]),), images=images)
    elif row.kind == "assistant" and not _is_dropped(row):
        yield from _steps(ids, list(map(as_object, as_list(data.get("content")))))
    elif row.kind in TOLD:
        yield Said("user", ids, (str(data["text"]),))
    elif row.kind == "shell":
        yield Said("user", ids, (f"$ {data['command']}\n", str(data.get("output", ""))))
    elif _is_usable(row):
        said = (as_text(data.get(name)) for name in ("summary", "recent"))
        yield Said("summary", ids, ("\n\n".join(one for one in said if one),))


def _is_dropped(message: Stored) -> bool:
    error = as_object(message.data.get("error"))
    if not error:
        return False
    parts = [part for _, part in message.parts] or as_list(message.data.get("content"))
    is_aborted = "abort" in str(error.get("name", error.get("type"))).lower()
    return not (is_aborted and any(as_object(one).get("type") in ("text", "tool") for one in parts))


def _user(ids: tuple[str, ...], parts: Sequence[Json]) -> Iterator[Said]:
    texts: list[str] = []
    for part in parts:
        if part.get("type") == "compaction":
            texts.append(ASKED)
        elif part.get("type") == "text" and part.get("ignored") is not True:
            texts.append(str(part["text"]))
    images = sum(part.get("type") == "file" and _is_image(part) for part in parts)
    if texts or images:
        yield Said("user", ids, tuple(texts), images=images)


def _steps(ids: tuple[str, ...], parts: Sequence[Json]) -> Iterator[Said]:
    """Yield the answers of an assistant's message, each with the results of its calls."""
    steps: list[list[Json]] = [[]]
    for part in parts:
        is_next = part.get("type") == "step-start"
        if is_next and any(one.get("type") == "tool" for one in steps[-1]):
            steps.append([])
        steps[-1].append(part)
    for one in steps:
        yield from _answer(ids, one)


def _answer(ids: tuple[str, ...], parts: Sequence[Json]) -> Iterator[Said]:
    def said(kind: str) -> tuple[str, ...]:
        shown = (one for one in parts if one.get("type") == kind and not one.get("ignored"))
        return tuple(str(one["text"]) for one in shown if one.get("text"))

    calls = [one for one in parts if one.get("type") == "tool"]
    asked = tuple(str(one.get("callID", one.get("id", ""))) for one in calls)
    yield Said("assistant", ids, said("text"), asked, said("reasoning"))
    for call_id, call in zip(asked, calls, strict=True):
        yield _result(ids, call_id, as_object(call.get("state")))


def _result(ids: tuple[str, ...], call_id: str, state: Json) -> Said:
    """Return the result of a call, whatever became of it."""
    status, calls = state.get("status"), (call_id,)
    if status == "completed":
        if as_object(state.get("time")).get("compacted"):
            return Said("tool", ids, (CLEARED,), calls)
        files = [as_object(one) for one in as_list(state.get("attachments"))]
        content = [as_object(one) for one in as_list(state.get("content"))]
        texts = [str(state["output"])] if "output" in state else []
        texts += [str(one["text"]) for one in content if one.get("type") == "text"]
        images = sum(map(_is_image, [*files, *content]))
        return Said("tool", ids, tuple(texts), calls, images=images)
    if status == "error":
        error: Any = state.get("error")
        words = error if isinstance(error, str) else str(as_object(error).get("message"))
        return Said("tool", ids, (words,), calls, failed=True)
    return Said("tool", ids, (INTERRUPTED,), calls, failed=True)


def _is_image(file: Json) -> bool:
    return str(file.get("mime", "")).startswith("image/")
