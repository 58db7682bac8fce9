"""The messages of opencode: what the model sees of one message, of version 1 or 2.

Version 1 has a message and its parts; a call and its result are one part. Version 2 has one row for
each message, with a kind.

    {"type":"tool","callID":"call_1","tool":"read","state":{"status":"completed","input":{},"output":"…"}}
    {"type":"tool","id":"call_9","name":"bash","state":{"status":"completed","input":{},"content":[…]}}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from sessiond.dialects.agents.source_line import count_in, member
from sessiond.dialects.lenient_json import is_null, items, join, lenient, text
from sessiond.dialects.payload import read_message
from sessiond.dialects.usage import usage_in
from sessiond.model.parsed_message import Block, ParsedMessage
from sessiond.model.usage import Usage

ASKED: Final = "What did we do so far?"
"""The words for which opencode asks a model when a talk is to be compacted."""
_TASK: Final = "The following tool was executed by the user"
_CLEARED: Final = "[Old tool result content cleared]"
_INTERRUPTED: Final = "[Tool execution was interrupted]"
# Their content is in synthetic texts beside them.
_READ_FILES: Final = frozenset({"text/plain", "application/x-directory"})
_ABORTED: Final = frozenset({"MessageAbortedError", "AbortedError", "aborted"})
_STOPS: Final[Mapping[str, str]] = {"tool-calls": "toolUse", "content-filter": "error"}
_SILENT: Final = frozenset({"step-start", "reasoning"})

Parts = list[dict[str, Raw]]


def message_of(data: dict[str, Raw], parts: Parts) -> ParsedMessage | None:
    """Return what the model sees of a message of version 1, results last; None for no words."""
    role = text(data.get("role"))
    if role == "user":
        blocks = tuple(block for part in parts for block in _of_user(part))
        return ParsedMessage("user", blocks) if blocks else None
    if role != "assistant" or _is_dropped(data, parts):
        return None
    model = text(data.get("modelID")), text(data.get("providerID"))
    return _answer(data, parts, model)


def row_message(kind: str, data: dict[str, Raw]) -> ParsedMessage | None:
    """Return what the model sees of a row of version 2, results last; None for no words."""
    if kind == "user":
        words = Block("text", text=text(data.get("text")) or "")
        files = tuple(map(_file, _objects(data, "files")))
        blocks = ((words,) if words.text or not files else ()) + files
        return ParsedMessage("user", blocks) if files or words.text else None
    parts = _objects(data, "content")
    if kind != "assistant" or _is_dropped(data, parts):
        return None
    found = member(data, "model")
    return _answer(data, parts, (text(found.get("id")), text(found.get("providerID"))))


def _is_dropped(data: dict[str, Raw], parts: Parts) -> bool:
    """Return whether an answer failed, so that opencode never sends it again.

    An answer that its user aborted counts as far as it came.
    """
    if is_null(data.get("error")):
        return False
    return not (_is_aborted(data) and any(_kind(part) not in _SILENT for part in parts))


def is_synthetic(parts: Parts) -> bool:
    """Return whether opencode itself wrote all of a user's message."""
    said = [part for part in parts if _of_user(part)]
    return bool(said) and all(_is_true(part, "synthetic") for part in said)


def kept_from(parts: Parts) -> tuple[bool, str | None]:
    """Return whether a user's message asks for a compaction, and the first message that is kept."""
    for part in parts:
        if _kind(part) == "compaction":
            return True, text(part.get("tail_start_id"))
    return False, None


def usage_of(data: dict[str, Raw]) -> Usage | None:
    """Return the tokens and the cost of an answer; None if all are 0.

    The tokens of the reasoning are none of the output there, but they are here.
    """
    found = member(data, "tokens")
    cache = member(found, "cache")
    sent, got = count_in(found, "input"), count_in(found, "output") + count_in(found, "reasoning")
    read, written = count_in(cache, "read"), count_in(cache, "write")
    total = count_in(found, "total") or sent + got + read + written
    stated = usage_in(Raw(join({"cost": data["cost"]}))) if "cost" in data else None
    usage = Usage(sent, got, read, written, total, 0.0 if stated is None else stated.cost)
    return None if usage == Usage() else usage


def _answer(
    data: dict[str, Raw], parts: Parts, model: tuple[str | None, str | None]
) -> ParsedMessage | None:
    words = [block for part in parts for block in _of_assistant(part)]
    results = [_result(part) for part in parts if _kind(part) == "tool"]
    if not words:
        return None
    finish = text(data.get("finish")) or ""
    return ParsedMessage(
        "assistant",
        (*words, *results),
        model_id=model[0],
        provider=model[1],
        usage=usage_of(data),
        stop_reason="aborted" if _is_aborted(data) else _STOPS.get(finish, finish),
    )


def _is_aborted(data: dict[str, Raw]) -> bool:
    error = member(data, "error")
    return text(error.get("name")) in _ABORTED or text(error.get("type")) in _ABORTED


# -- parts ----------------------------------------------------------------------------------------


def _of_user(part: dict[str, Raw]) -> Iterable[Block]:
    match _kind(part):
        case "text" if not _is_true(part, "ignored") and text(part.get("text")):
            yield Block("text", text=text(part.get("text")) or "")
        case "file" if text(part.get("mime")) not in _READ_FILES:
            yield _file(part)
        case "compaction":
            yield Block("text", text=ASKED)
        case "subtask":
            yield Block("text", text=_TASK)
        case _:
            pass


def _of_assistant(part: dict[str, Raw]) -> Iterable[Block]:
    said = text(part.get("text")) or ""
    match _kind(part):
        case "text" if said and not _is_true(part, "ignored"):
            yield Block("text", text=said)
        case "reasoning":
            signature = text(member(part, "metadata", "anthropic").get("signature")) or ""
            if said or signature:
                yield Block("thinking", text=said, signature=signature)
        case "tool":
            call_id, name = _named(part)
            yield Block("tool_call", id=call_id, name=name, arguments=_arguments(part))
        case _:
            pass


def _arguments(part: dict[str, Raw]) -> Raw | None:
    """Return the arguments of a call; those that are still being written are no object yet."""
    given = member(part, "state").get("input")
    return given if given is not None and bytes(given).startswith(b"{") else None


def _named(part: dict[str, Raw]) -> tuple[str, str]:
    """Return the id of a call and its tool: `callID` and `tool`, in version 2 `id` and `name`."""
    call_id = text(part.get("callID")) or text(part.get("id")) or ""
    return call_id, text(part.get("tool")) or text(part.get("name")) or ""


def _result(part: dict[str, Raw]) -> Block:
    """Return the result of a call as opencode sends it; a call without one was interrupted."""
    state = member(part, "state")
    call_id, name = _named(part)
    parts: tuple[Block, ...] = ()
    is_error = False
    match text(state.get("status")):
        case "completed" if _is_cleared(part, state):
            said = _CLEARED
        case "completed" | "error" as status:
            parts = _output(state)
            is_error = status == "error"
            said = "\n".join(one.text for one in parts if one.kind == "text")
            said = said if parts or not is_error else _error(state)
        case _:
            said, is_error = _INTERRUPTED, True
    return Block("tool_result", text=said, id=call_id, name=name, is_error=is_error, parts=parts)


def _is_cleared(part: dict[str, Raw], state: dict[str, Raw]) -> bool:
    """Return whether opencode cleared an output to save tokens; the store still has the output."""
    times = member(state, "time"), member(part, "time")
    return any(not is_null(time.get(name)) for time in times for name in ("compacted", "pruned"))


def _output(state: dict[str, Raw]) -> tuple[Block, ...]:
    """Return the blocks of an output: a text with files, or in version 2 a list."""
    said = text(state.get("output"))
    words = (Block("text", text=said),) if said is not None else ()
    files = map(_file, _objects(state, "attachments"))
    return (*words, *files, *map(_content, _objects(state, "content")))


def _content(found: dict[str, Raw]) -> Block:
    if _kind(found) == "text":
        return Block("text", text=text(found.get("text")) or "")
    return _file(found)


def _error(state: dict[str, Raw]) -> str:
    found = state.get("error")
    said = text(found) or text(member(state, "error").get("message"))
    return said or ("" if found is None else bytes(found).decode(errors="replace"))


def _file(found: dict[str, Raw]) -> Block:
    """Return an image, or another file as the store has it."""
    mime = text(found.get("mime")) or ""
    address = found.get("url", found.get("uri"))
    if mime.startswith("image/") and address is not None:
        image = join({"type": Raw(b'"image_url"'), "image_url": Raw(join({"url": address}))})
        content = Raw(b"[%b]" % image)
        said = read_message(msgspec.json.encode({"role": "user", "content": content}))
        if said is not None and said.blocks:
            return said.blocks[0]
    return Block("other", spelling="file", raw=Raw(join(found | {"type": Raw(b'"file"')})))


def _objects(members: dict[str, Raw], name: str) -> Parts:
    return [lenient(one) for one in items(members.get(name, b"")) or ()]


def _kind(part: dict[str, Raw]) -> str:
    return text(part.get("type")) or ""


def _is_true(part: dict[str, Raw], name: str) -> bool:
    return bytes(part.get(name, b"")) == b"true"
