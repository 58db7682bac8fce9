"""Problems of lines that a session keeps nevertheless.

The list of kinds is closed. protocol.md has a row for each kind, and a test compares the two.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

ProblemKind = Literal[
    # Lines that a repair leaves out.
    "bad_line",
    "torn_tail",
    "incomplete_atom",
    # Problems that no repair can solve.
    "bad_header",
    # Problems that are only reported: every line can be read.
    "broken_atom",
    "orphan",
    "damaged_line",
    "duplicate_id",
    "unknown_target",
    "first_kept_off_path",
    "bad_state",
    # Only an import reports these: lines of another agent that no entry says.
    "not_copied",
    # Problems that only session/verify reports; an opening does not look for them.
    "bad_time",
    "other_spelling",
    "other_id",
    "long_line",
]

PROBLEM_KINDS: Final[tuple[ProblemKind, ...]] = get_args(ProblemKind)


class Problem(Struct, frozen=True):
    """A part of the file that was kept but does not mean what its writer meant."""

    line: int
    kind: ProblemKind
    detail: str

    @property
    def note(self) -> str:
        """The problem as one text, for notes of a copy."""
        return f"line {self.line}: {self.detail}"


def without_parent(bridge: str | None) -> str:
    """Return what is said of an entry whose parent is missing; `bridge` is where its path goes on."""
    shown = "shown as a root" if bridge is None else f"the path goes on at {bridge}"
    return f"its parent is missing; {shown}"
