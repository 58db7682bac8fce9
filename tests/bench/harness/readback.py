"""Reads back what was acknowledged and counts it: a rate of lost entries is no rate.

Law: from the file, not from the program that wrote it; only a session that has no
file is read over the socket.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from tests.bench.harness.errors import BenchError
from tests.bench.harness.link import Link

__all__ = ["require_count", "require_in_file", "require_in_memory"]


class _Line(Struct):
    type: str
    id: str


class _Row(Struct):
    seq: int
    entry: Raw


class _Page(Struct):
    entries: list[_Row]
    next_seq: int | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_PAGE_ROWS = 2000


def require_in_file(path: Path, count: int, *, offset: int = 0, kind: str = "message") -> int:
    """Require `count` entries of a type, with different ids, from `offset` on; return the size.

    Raises BenchError.
    """
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read()
    if data and not data.endswith(b"\n"):
        raise BenchError(f"the file ends in half a line after {count} entries")
    ids = {line.id for line in map(_decode_line, data.split(b"\n")[:-1]) if line.type == kind}
    require_count(len(ids), count, "in the file")
    return offset + len(data)


def require_in_memory(link: Link, session_id: str, count: int, *, after: int = 0) -> None:
    """`count` messages of different ids behind `after`, over the socket. Raises BenchError."""
    ids: set[str] = set()
    at: int | None = after
    while at is not None:
        asked = {"session_id": session_id, "after_seq": at, "limit": _PAGE_ROWS}
        page = link.ask("session/entries", asked, _Page)
        ids.update(_decode_line(row.entry).id for row in page.entries)
        at = page.next_seq
    require_count(len(ids), count, "in the session")


def require_count(found: int, count: int, where: str) -> None:
    """Require as many entries as were acknowledged. Raises BenchError."""
    if found != count:
        raise BenchError(f"{count} entries were acknowledged, {found} are {where}")
