"""The lines of another agent's file as objects, and a report of what the copy lacks.

Law: a line that is no object, half a line at the end, and every line without a place in the copy is
in the report, by its number. Lines of one type of bookkeeping share one problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond.dialects.base import BadLine
from sessiond.dialects.lenient_json import fields, lenient, require_readable, text
from sessiond.journal.splitter import LongLine
from sessiond.limits import PROBLEMS_MAX
from sessiond.model.problems import Problem, ProblemKind
from sessiond.model.times import rfc3339
from sessiond.service.log.line_indexer import too_long

__all__ = ["AgentLog", "Beside", "Report", "SourceLine", "count_in", "decoded", "member", "truth"]


# Above the real figures of any session, and exact in every program.
_COUNT_MAX: Final = 10**12


class SourceLine(Struct, frozen=True):
    """A line that is an object, and its number in the file, from 1."""

    number: int
    members: dict[str, Raw]

    def word(self, name: str) -> str | None:
        """Return a member that is a text; None for any other value."""
        return text(self.members.get(name))

    def time(self, name: str = "timestamp") -> str:
        """Return a member as RFC 3339 UTC; "" if the member is no time."""
        return rfc3339(self.word(name))


class Beside(Struct, frozen=True):
    """Facts of a session from the files beside its file.

    `before` has the lines of other files with which the session begins; None if such a file is missing.
    """

    title: str | None = None
    cwd: str | None = None
    before: tuple[bytes, ...] | None = ()


class AgentLog(Struct, frozen=True):
    """The content of a file: its name, its lines, and the bytes behind the last newline."""

    name: str
    lines: Sequence[bytes]
    tail: bytes
    beside: Beside = Beside()


class Report:
    """Problems of a copy: lines that it lacks, and lines that mean less than their writer meant."""

    def __init__(self) -> None:
        self.dropped = 0
        self.count = 0
        self._problems: list[Problem] = []
        self._left_out: dict[str, list[int]] = {}

    def add(self, line: int, kind: ProblemKind, detail: str) -> None:
        """Report one line that is in the copy."""
        self.count += 1
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(Problem(line, kind, detail))

    def drop(self, line: int, kind: ProblemKind, detail: str) -> None:
        """Report one line that the copy lacks."""
        self.dropped += 1
        self.add(line, kind, detail)

    def leave_out(self, line: int, what: str) -> None:
        """Report a line of the agent's own bookkeeping, together with its kin."""
        self.dropped += 1
        self._left_out.setdefault(what, []).append(line)

    @property
    def problems(self) -> list[Problem]:
        """Problems in the order of their lines, PROBLEMS_MAX at most."""
        shared = [
            Problem(lines[0], "not_copied", f"left out: {what}, {len(lines)} in all")
            for what, lines in self._left_out.items()
        ]
        alone = self._problems[: PROBLEMS_MAX - min(len(shared), PROBLEMS_MAX)]
        return sorted([*alone, *shared][:PROBLEMS_MAX], key=lambda one: one.line)

    @property
    def problem_count(self) -> int:
        """Number of problems, those beyond PROBLEMS_MAX included."""
        return self.count + len(self._left_out)

    def objects(self, log: AgentLog) -> Iterator[SourceLine]:
        """Yield the lines that are objects; report the other ones."""
        for number, line in enumerate(log.lines, 1):
            if not line.strip():
                continue
            found = self._object(number, line)
            if found is not None:
                yield SourceLine(number, found)
        if log.tail.strip():
            number = len(log.lines) + 1
            found = _whole(log.tail)
            if found is None:
                self.drop(number, "torn_tail", "half a line was left out")
            else:
                yield SourceLine(number, found)

    def _object(self, number: int, line: bytes) -> dict[str, Raw] | None:
        if isinstance(line, LongLine):
            self.drop(number, "bad_line", f"{too_long(line)}; the line was left out")
            return None
        try:
            require_readable(line)
            return fields(line)
        except BadLine as bad:
            self.drop(number, "bad_line", f"{bad}; the line was left out")
            return None


def _whole(tail: bytes) -> dict[str, Raw] | None:
    try:
        require_readable(tail)
        return fields(tail)
    except BadLine:
        return None


def member(members: dict[str, Raw], *path: str) -> dict[str, Raw]:
    """Return the object at a path of members; no members where there is no object."""
    for name in path:
        members = lenient(members.get(name, b""))
    return members


def truth(members: dict[str, Raw], name: str) -> bool:
    """Return whether a member is the value true."""
    return bytes(members.get(name, b"")) == b"true"


def decoded(raw: Raw | None, kind: type[Any], default: Any) -> Any:
    """Return a member of this type; `default` for any other value."""
    if raw is None:
        return default
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return default


def count_in(members: dict[str, Raw], name: str) -> int:
    """Return a member that is a count; 0 for any other value."""
    found: int = decoded(members.get(name), int, 0)
    return found if 0 <= found <= _COUNT_MAX else 0
