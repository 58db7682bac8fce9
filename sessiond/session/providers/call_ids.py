"""Tool calls in the form an API accepts: unique ids, and ids and names of legal characters.

Law: a legal id or name stays as it is. Models of other providers make ids of any length and
characters, leave ids out, or use one id for several calls. A result gets its call's id.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sessiond.model.digests import sha256_hex
from sessiond.model.parsed_message import Block
from sessiond.session.providers.tool_pairing import ContextMessage, paired

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_MARK_CHARS: Final = 10
_NAMELESS: Final = "unnamed"


class Legal(Struct, frozen=True):
    """Maximal lengths of call ids and tool names; the legal characters are those of `_ILLEGAL`."""

    id_chars: int
    name_chars: int


def named(
    messages: Sequence[ContextMessage], legal: Legal, used: Container[str]
) -> list[ContextMessage]:
    """Return the messages with legal calls; `used` holds the ids of calls shown before."""
    taken: set[str] = set()
    ids: dict[tuple[int, int], str] = {}
    found: list[ContextMessage] = []
    pairs = paired(messages)
    for at, told in enumerate(messages):
        changed: dict[int, Block] = {}
        for number, block in enumerate(told.reading.blocks):
            if block.kind == "tool_call" and told.reading.role == "assistant":
                again = block.id in taken or block.id in used
                taken.add(block.id)
                where = f"{told.source} {told.place} {number} " if again or not block.id else ""
                ids[at, number] = _id(block.id, where, legal)
                name = _ILLEGAL.sub("_", block.name)[: legal.name_chars] or _NAMELESS
                new = (ids[at, number], name)
            elif block.kind == "tool_result":
                called = pairs.get((at, number))
                own = _id(block.id, "", legal) if called is None else ids[called]
                new = (own, block.name)
            else:
                continue
            if new != (block.id, block.name):
                changed[number] = replace(block, id=new[0], name=new[1])
        found.append(_with(told, changed) if changed else told)
    return found


def ids_called(messages: Iterable[ContextMessage]) -> dict[str, int]:
    """Return the call ids as written, each with the place of the first message that has the id."""
    found: dict[str, int] = {}
    for told in messages:
        for block in told.reading.blocks:
            if block.kind == "tool_call" and told.reading.role == "assistant":
                found.setdefault(block.id, told.place)
    return found


def _id(written: str, where: str, legal: Legal) -> str:
    """Return the written id if it is legal and not used before; else an id unique to the call."""
    plain = _ILLEGAL.sub("_", written)
    if plain == written and written and not where and len(written) <= legal.id_chars:
        return written
    mark = sha256_hex(f"{where}{written}".encode(errors="replace"))[:_MARK_CHARS]
    return f"{plain[: legal.id_chars - _MARK_CHARS - 1]}_{mark}"


def _with(told: ContextMessage, changed: dict[int, Block]) -> ContextMessage:
    blocks = tuple(changed.get(number, block) for number, block in enumerate(told.reading.blocks))
    return replace(told, reading=replace(told.reading, blocks=blocks))
