"""The lines of another agent's file, and a report of what the copy lacks.

Law: a line that is no object, half a line at the end, and every line without a place in the copy is
in the report, by its number. Lines of one type of bookkeeping share one problem.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from sessiond.dialects.agents.transcript import Taken, Transcript
from sessiond.journal.scanning import feed
from sessiond.journal.splitter import LongLine, Splitter, without_end
from sessiond.limits import PROBLEMS_MAX
from sessiond.model.problems import Problem, ProblemKind
from sessiond.service.log.chunks import emptied
from sessiond.service.log.line_indexer import too_long

BASE_IS_MISSING: Final = "the beginning of this fork is in another rollout, which is not there"


class Output(Struct, frozen=True):
    """The beginning of a tool's output, and the size of the whole in bytes."""

    data: bytes
    size: int


class Beside(Struct, frozen=True):
    """Facts of a session from the files beside its file.

    `before` yields the lines of other files with which the session begins; None if such a file is missing.
    """

    title: str | None = None
    cwd: str | None = None
    before: Callable[[], Iterable[list[bytes]]] | None = tuple
    parent_id: str | None = None
    """The session here that is the copy of the session's parent."""
    outputs: Callable[[str, int], Output | None] | None = None
    """Reads the beginning of a tool's output, by the name of its file and a number of bytes."""


Parts = Callable[[], Iterator[tuple[list[bytes], bool]]]
"""Yields the lines of a content, some at a time, as often as it is called.

The flag comes with the last ones: what stands behind the last newline, if there is anything.
"""


class AgentLog:
    """The content of a file: its name, its lines as they come, and facts from beside the file."""

    def __init__(self, name: str, parts: Parts, beside: Beside = Beside()) -> None:  # noqa: B008 - never changed
        self.name = name
        self.beside = beside
        self._parts = parts
        self._count = 0

    def parts(self) -> Iterator[tuple[int, list[bytes], bool]]:
        """Yield the lines, some at a time, with the number of the first and the flag of the last ones."""
        self._count = 0
        for lines, is_end in self._parts():
            first = self._count + 1
            self._count += len(lines)
            yield first, lines, is_end
            # A long line goes before the next one comes.
            lines.clear()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines, and what stands behind the last newline."""
        return (line for lines, _ in self._parts() for line in lines)

    def behind(self) -> Iterator[bytes]:
        """Yield the lines behind those that `parts` has yielded."""
        return islice(self.lines(), self._count, None)


def in_parts(pieces: Iterable[bytes]) -> Iterator[tuple[list[bytes], bool]]:
    """Yield the lines of a content as `Parts` does."""
    splitter = Splitter(array("q", [0]))
    for _, lines in feed(splitter, pieces):
        if lines:
            yield [without_end(line) for line in emptied(lines)], False
    rest = splitter.rest()
    yield [rest] if rest.strip() else [], True


class Report:
    """Problems of a copy: lines that it lacks, and lines that mean less than their writer meant."""

    def __init__(self) -> None:
        self.dropped = 0
        self.count = 0
        self._problems: list[Problem] = []
        # The first line of each kind, and the number of all.
        self._left_out: dict[str, tuple[int, int]] = {}

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
        first, count = self._left_out.get(what, (line, 0))
        self._left_out[what] = first, count + 1

    @property
    def problems(self) -> list[Problem]:
        """Problems in the order of their lines, PROBLEMS_MAX at most."""
        shared = [
            Problem(first, "not_copied", f"left out: {what}, {count} in all")
            for what, (first, count) in self._left_out.items()
        ]
        alone = self._problems[: PROBLEMS_MAX - min(len(shared), PROBLEMS_MAX)]
        return sorted([*alone, *shared][:PROBLEMS_MAX], key=lambda one: one.line)

    @property
    def problem_count(self) -> int:
        """Number of problems, those beyond PROBLEMS_MAX included."""
        return self.count + len(self._left_out)

    def entries(self, log: AgentLog, transcript: Transcript) -> Iterator[Taken]:
        """Yield the records of the lines that have an entry; report all other lines, and damaged ones."""
        for first, lines, is_end in log.parts():
            for taken in transcript.take(lines, is_last=is_end, first=first):
                if taken.damage is not None:
                    self.add(taken.line, "damaged_line", taken.damage)
                if taken.entry is not None:
                    held = [taken]
                    # The caller may let go of a long one.
                    del taken
                    yield held.pop()
                    continue
                if is_end and taken.line >= first:
                    self.drop(taken.line, "torn_tail", "half a line was left out")
                elif taken.raw.strip():
                    why = too_long(taken.raw) if isinstance(taken.raw, LongLine) else taken.why
                    self.drop(taken.line, "bad_line", f"{why}; the line was left out")
                del taken
