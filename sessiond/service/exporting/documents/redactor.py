"""Program of the process that redacts lines: JSON lines in, redacted JSON lines out.

Law: only the standard library, and nothing of sessiond: the process starts fast and knows only what
it is sent. A pattern may need time without end, so a limit of processor time ends the process. The
daemon never runs a pattern itself.

    first line in   ["pattern", ...]
    first line out  null, or [index of the bad pattern, why]
    then            how many lines follow, those lines; as many lines come back
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

REDACTED: Final = "[redacted]"

KEPT: Final = frozenset(
    {
        *("type", "kind", "role", "version", "head", "subtype"),
        *("id", "entry_id", "entryId", "session_id", "sessionId", "leaf_id", "epoch"),
        *("parent_id", "parentId", "parentID", "parent_session", "parentSession"),
        *("target_id", "targetId", "from_id", "fromId", "atom_of"),
        *("first_kept_entry_id", "firstKeptEntryId", "resolved_parent_id"),
        *("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "callId"),
        *("timestamp", "ts", "time", "created_at", "updated_at", "createdAt", "updatedAt"),
        *("started_at", "ended_at", "custom_type", "customType"),
    }
)
"""Members whose texts stay: types, roles, times and ids, which hold the entries together. The names of
members stay, too."""

OPAQUE: Final = frozenset({"arguments", "args", "input", "data", "details", "metadata", "params"})
"""Members whose insides belong to tools and extensions: no text stays there."""

_TOKEN: Final = re.compile(r'[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*"(\s*:\s*)?')
_CPU_SECONDS: Final = 2
_BYTES_A_SECOND: Final = 256 * 1024
_MEMORY_BYTES: Final = 4 * 1024**3


def redact_line(line: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """Return a JSON document whose texts have no match of a pattern; all else is unchanged.

    Names of members are texts only inside what belongs to a tool or an extension.
    """
    return _TOKEN.sub(_Line(patterns).redacted, line)


class _Line:
    """The place in one JSON document: the member whose value comes next, and the members around."""

    def __init__(self, patterns: Sequence[re.Pattern[str]]) -> None:
        self._patterns = patterns
        self._member = ""
        self._value_at = -1
        self._around: list[bool] = []
        """True for each open object or array that belongs to a tool or an extension."""

    def redacted(self, found: re.Match[str]) -> str:
        """Return a token of the document without matches."""
        piece, colon = found[0], found[1] or ""
        member = self._member if found.start() == self._value_at else ""
        if piece in "{[":
            inside = bool(self._around) and self._around[-1]
            self._around.append(inside or member in OPAQUE)
            return piece
        if piece in "}]":
            self._around.pop()
            return piece
        text = json.loads(piece[: len(piece) - len(colon)])
        if colon:
            self._member, self._value_at = text, found.end()
        inside = bool(self._around) and self._around[-1]
        if not inside and (colon or member in KEPT):
            return piece
        said = text
        for pattern in self._patterns:
            said = pattern.sub(_blanked, said)
        return piece if said == text else json.dumps(said) + colon


def _blanked(found: re.Match[str]) -> str:
    # An empty match has nothing to hide.
    return REDACTED if found[0] else ""


def run(lines: IO[bytes], out: IO[bytes]) -> None:
    """Answer batches of lines until there are no more."""
    _limit_memory()
    patterns: list[re.Pattern[str]] = []
    _allow_time(0)
    for index, pattern in enumerate(json.loads(lines.readline() or "[]")):
        try:
            patterns.append(re.compile(pattern))
        except (re.error, OverflowError, RecursionError, MemoryError) as error:
            _answer(out, json.dumps([index, str(error)]))
            return
    _answer(out, "null")
    while count := lines.readline():
        batch = [lines.readline() for _ in range(int(count))]
        _allow_time(sum(map(len, batch)))
        for line in batch:
            said = redact_line(line.decode(errors="surrogateescape"), patterns)
            out.write(said.encode(errors="surrogateescape"))
        out.flush()


def _answer(out: IO[bytes], text: str) -> None:
    out.write(text.encode() + b"\n")
    out.flush()


def _limit_memory() -> None:
    # Some platforms have no such limit.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _allow_time(size: int) -> None:
    """Allow this process the processor time that a batch of so many bytes may need."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + _CPU_SECONDS + size // _BYTES_A_SECOND
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard != resource.RLIM_INFINITY:
        seconds = min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


if __name__ == "__main__":
    run(sys.stdin.buffer, sys.stdout.buffer)
