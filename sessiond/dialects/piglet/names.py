"""The translation of piglet's lines to native ones.

Law: payloads stay as they are stored. A type that piglet does not know is the name of an extension's
own entry, so such a line is a `custom` entry with this name. The same holds for a line of a known
type whose data piglet cannot use.

    {"type":"compact","id":"2a2b2c2d","parentId":"1a1b1c1d","ts":"…","data":[{"type":"user",
     "ts":"0001-01-01T00:00:00Z","data":{"content":"Summary: …"}}],"tokensBefore":100400}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.base import BadLine
from sessiond.dialects.entry_members import ENTRY_PREFIX
from sessiond.dialects.lenient_json import (
    fields,
    is_null,
    items,
    lenient,
    require_readable,
    text,
)
from sessiond.dialects.piglet.header import META
from sessiond.dialects.piglet.meta import OWN_ID, facts_of, id_of
from sessiond.dialects.piglet.spelling import (
    ROLE_OF_TYPE,
    is_object,
    message_of_data,
    require_time,
)
from sessiond.dialects.times import raw_rfc3339
from sessiond.model.entries import ENTRY_TYPES, HEADER_TYPES

CUSTOM_MESSAGE: Final = "custom_message"
"""The custom type of a message that names none, as piglet writes no other."""
MODEL: Final = "sessiond.model_change"
THINKING: Final = "sessiond.thinking_level_change"

_ENVELOPE: Final = frozenset({"type", "id", "parentId", "ts", "data", "tokensBefore", OWN_ID})
# Names of native members: a stray member of such a name means nothing to piglet.
_NATIVE: Final = frozenset({"type", "id", "parent_id", "timestamp", "head", "atom", "atom_of"})
_NULL: Final = b"null"
_encode: Final = msgspec.json.Encoder().encode
_Members = dict[str, bytes]


def members_of(line: bytes) -> dict[str, Raw]:
    """Return the members of a line whose envelope piglet reads. Raises BadLine."""
    require_readable(line)
    found = fields(line)
    word = text(found.get("type"))
    if word is None:
        raise BadLine("has no type")
    if word != META and not text(found.get("id")):
        raise BadLine("has no id")
    parent = found.get("parentId")
    if not is_null(parent) and text(parent) is None:
        raise BadLine("has a parentId that is no text")
    require_time(found)
    return found


def wire(line: bytes) -> bytes:
    """Return the entry of a stored line with native names and times. Raises BadLine."""
    found = members_of(line)
    word = text(found["type"]) or ""
    read = _READERS.get(word)
    own = _other(word, found) if read is None else read(found)
    if own is None:
        own = {"type": b'"custom"', "custom_type": bytes(found["type"])}
        if not is_null(found.get("data")):
            own["data"] = bytes(found["data"])
    members = {
        "type": own.pop("type"),
        "id": _encode(id_of(found)) if word == META else bytes(found["id"]),
        "parent_id": _NULL if word == META else _given(found.get("parentId")),
        "timestamp": _encode(raw_rfc3339(found.get("ts"))),
        **own,
    }
    for name, value in found.items():
        if name not in _ENVELOPE and name not in _NATIVE:
            # A stray member does not replace one that stands for piglet's own.
            members.setdefault(name, bytes(value))
    spelled = (_encode(name) + b":" + value for name, value in members.items())
    return b"{" + b",".join(spelled) + b"}"


def replacement_in(data: Raw | None) -> list[bytes]:
    """Return the messages of a compaction; other entries in it mean nothing to piglet."""
    return list(_messages(items(data or b"") or ()))


def _messages(entries: Iterable[Raw]) -> Iterable[bytes]:
    for one in entries:
        found = lenient(one)
        role = ROLE_OF_TYPE.get(text(found.get("type")) or "")
        data = found.get("data")
        if role is not None and data is not None and is_object(data):
            yield message_of_data(role, data)


def _message(role: str, found: dict[str, Raw]) -> _Members | None:
    data = found.get("data")
    if data is None or not is_object(data):
        return None
    return {"type": b'"message"', "message": message_of_data(role, data)}


def _compaction(found: dict[str, Raw]) -> _Members | None:
    messages = replacement_in(found.get("data"))
    if not messages:
        # piglet ignores a compaction without messages when it reads the file again.
        return None
    members = {"type": b'"compaction"', "messages": b"[" + b",".join(messages) + b"]"}
    before = found.get("tokensBefore")
    return members if is_null(before) else members | {"tokens_before": bytes(before or _NULL)}


def _branch_summary(found: dict[str, Raw]) -> _Members | None:
    data = lenient(found.get("data", b""))
    if text(data.get("summary")) is None:
        return None
    own = {"summary": bytes(data["summary"]), "from_id": _given(data.get("fromId"))}
    return {"type": b'"branch_summary"', **own, **_others(data, "summary", "fromId")}


def _custom_message(found: dict[str, Raw]) -> _Members | None:
    data = lenient(found.get("data", b""))
    if text(data.get("content")) is None:
        return None
    role = "assistant" if text(data.get("role")) == "assistant" else "user"
    return {
        "type": b'"custom_message"',
        "custom_type": _encode(text(data.get("customType")) or CUSTOM_MESSAGE),
        "content": bytes(data["content"]),
        "display": b"false" if bytes(data.get("display", b"")) == b"false" else b"true",
        "role": _encode(role),
        **_others(data, "role", "content", "customType", "display"),
    }


def _label(found: dict[str, Raw]) -> _Members | None:
    data = lenient(found.get("data", b""))
    target = data.get("targetId")
    if target is None or text(target) is None:
        return None
    own = {"target_id": bytes(target), "label": _given(data.get("label"))}
    return {"type": b'"label"', **own, **_others(data, "targetId", "label")}


def _model_change(found: dict[str, Raw]) -> _Members | None:
    data = lenient(found.get("data", b""))
    if not text(data.get("modelId")):
        return None
    own = {"model_id": bytes(data["modelId"])}
    return {"type": b'"model_change"', **own, **_others(data, "modelId")}


def _thinking(found: dict[str, Raw]) -> _Members | None:
    data = lenient(found.get("data", b""))
    if not text(data.get("thinkingLevel")):
        return None
    own = {"thinking_level": bytes(data["thinkingLevel"])}
    return {"type": b'"thinking_level_change"', **own, **_others(data, "thinkingLevel")}


def _other(word: str, found: dict[str, Raw]) -> _Members | None:
    """Return the members of an entry of a type that no dialect knows; None for any other entry."""
    kind, data = word.removeprefix(ENTRY_PREFIX), found.get("data")
    if kind in {word, "", *ENTRY_TYPES, *HEADER_TYPES} or data is None or not is_object(data):
        return None
    return {"type": _encode(kind), **_others(fields(data))}


def _others(data: dict[str, Raw], *names: str) -> _Members:
    """Return the members that have no native name; none of them takes the place of another one."""
    taken = _NATIVE.union(names)
    return {name: bytes(value) for name, value in data.items() if name not in taken}


def _given(raw: Raw | None) -> bytes:
    """Return a text, or null where Go has the empty text for no value."""
    return bytes(raw) if raw is not None and text(raw) else _NULL


_READERS: Final[dict[str, Callable[[dict[str, Raw]], _Members | None]]] = {
    META: facts_of,
    **{word: partial(_message, role) for word, role in ROLE_OF_TYPE.items()},
    "compact": _compaction,
    "branch_summary": _branch_summary,
    CUSTOM_MESSAGE: _custom_message,
    "label": _label,
    MODEL: _model_change,
    THINKING: _thinking,
}
KNOWN_TYPES: Final = frozenset(_READERS)
"""The types that are no custom type."""
