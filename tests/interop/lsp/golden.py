"""View that an editor has of a file, as text: symbols, a hover of each line, problems.

A sample's text is told in full. Of a recording, which is not part of the repository, only facts are
told: lines, kinds, ids, counts and digests, and no words of a message.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from lsprotocol import types

from tests.interop.lsp.editor import Editor

__all__ = ["UPDATE", "facts_seen", "seen", "settle"]

UPDATE = "UPDATE=1 .venv/bin/pytest tests/interop/lsp/test_golden.py"
# A file's time is shown in the hover of its header.
_WRITTEN_AT = 1_768_473_000
_AT_ONCE = 50


def settle(path: Path) -> Path:
    """Give a copy of a file the time that golden files know."""
    os.utime(path, (_WRITTEN_AT, _WRITTEN_AT))
    return path


async def seen(client: Editor, path: Path) -> str:
    """Return all that an editor sees of a file."""
    uri, problems, symbols, hovers = await _asked(client, path)
    shown = [
        "symbols",
        *_indented(_symbols(symbols)),
        "hovers",
        *_indented(_hovers(hovers)),
        "problems",
        *_indented(map(_problem, problems)),
    ]
    client.close(uri)
    told = "\n".join(shown).replace(str(path.parent), "$FOLDER") + "\n"
    session_id = next((_id(text) for line, text in hovers if line == 0), None)
    is_given = session_id is not None and session_id not in path.read_text("utf-8")
    # A session without an id of its own gets one that its place on the disk decides.
    return told.replace(session_id, "$SESSION") if session_id and is_given else told


async def facts_seen(client: Editor, path: Path) -> str:
    """Return the facts of all that an editor sees of a file, without any words of the file."""
    uri, problems, symbols, hovers = await _asked(client, path)
    shown = [
        "symbols: lines, kind, digest of the name",
        *_indented(_symbols(symbols, is_secret=True)),
        "hovers: line, id, digest of the hover",
        *_indented(f"{line} {_id(text)} {_digest(text)}" for line, text in hovers),
        "problems",
        *_indented(map(_problem, problems)),
    ]
    client.close(uri)
    return "\n".join(shown) + "\n"


async def _asked(
    client: Editor, path: Path
) -> tuple[
    str, Sequence[types.Diagnostic], Sequence[types.DocumentSymbol], Sequence[tuple[int, str]]
]:
    uri = client.open(path)
    problems = await client.problems(uri)
    symbols = await client.symbols(uri)
    hovers: list[tuple[int, str]] = []
    count = len(path.read_bytes().split(b"\n"))
    for begin in range(0, count, _AT_ONCE):
        lines = range(begin, min(begin + _AT_ONCE, count))
        found = await asyncio.gather(*(client.hover(uri, line) for line in lines))
        hovers += [(line, text) for line, text in zip(lines, found, strict=True) if text]
    return uri, problems, symbols, hovers


def _symbols(
    symbols: Iterable[types.DocumentSymbol], depth: int = 0, *, is_secret: bool = False
) -> Iterator[str]:
    for one in symbols:
        name = _digest(one.name) if is_secret else one.name
        lines = f"{one.range.start.line}-{one.range.end.line}"
        yield f"{'  ' * depth}{lines} {one.kind.name} {one.detail}: {name}"
        yield from _symbols(one.children or (), depth + 1, is_secret=is_secret)


def _hovers(hovers: Iterable[tuple[int, str]]) -> Iterator[str]:
    for line, text in hovers:
        title, *facts = text.split("\n")
        yield f"{line} {title}"
        yield from _indented(facts)


def _problem(one: types.Diagnostic) -> str:
    start, end = one.range.start, one.range.end
    severity = one.severity.name if one.severity else None
    return f"{start.line}:{start.character}-{end.character} {severity} {one.code}: {one.message}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}".rstrip() for line in lines)


def _id(hover: str) -> str | None:
    facts = (row.partition(": ") for row in hover.split("\n"))
    return next((value for name, _, value in facts if name == "id"), None)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]
