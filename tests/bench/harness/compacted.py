"""Long sessions with a compaction near their end, as a row wants to ask and to change them.

Law: what is in the cache stays as it is; a row gets a copy of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.harness.stored import native_file, path_in, pi_file

__all__ = ["KEPT", "compacted_native", "compacted_pi"]

KEPT: Final = 200
"""Messages that the compaction keeps."""


def compacted_native(cache: Path, home: Path, entries: int) -> Path:
    """Make a native session of `entries` messages and a compaction in a home; return its path."""
    return _compacted(native_file(cache, entries), path_in(home), _native)


def compacted_pi(cache: Path, folder: Path, entries: int) -> Path:
    """Make a pi session of `entries` messages and a compaction; return its path."""
    return _compacted(pi_file(cache, entries), folder / f"pi-compacted-{entries}.jsonl", _pi)


def _compacted(source: Path, path: Path, line: Callable[[str, str], dict[str, object]]) -> Path:
    shutil.copyfile(source, path)
    ids = [entry.id for entry in _last_lines(path)]
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line(ids[-1], ids[0])) + b"\n")
    return path


class _Entry(msgspec.Struct):
    id: str


def _last_lines(path: Path) -> list[_Entry]:
    """Return the kept entries, from the end of the file."""
    with path.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - 4 * 1024 * 1024))
        lines = file.read().splitlines()[-KEPT:]
    return [msgspec.json.decode(one, type=_Entry) for one in lines]


def _native(leaf: str, kept: str) -> dict[str, object]:
    return {
        "type": "compaction",
        "id": "compacted",
        "parent_id": leaf,
        "timestamp": "2026-01-15T10:30:00.000Z",
        "summary": "What was said before.",
        "first_kept_entry_id": kept,
        "tokens_before": 1000,
    }


def _pi(leaf: str, kept: str) -> dict[str, object]:
    return {
        "type": "compaction",
        "id": "c0c0c0c0",
        "parentId": leaf,
        "timestamp": "2026-01-15T10:30:00.000Z",
        "summary": "What was said before.",
        "firstKeptEntryId": kept,
        "tokensBefore": 1000,
    }
