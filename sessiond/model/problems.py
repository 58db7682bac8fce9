"""What can be wrong with a line of a session file, and still be kept.

The kinds are a closed list: protocol.md has a row for each, and a test holds the
two together.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

__all__ = ["PROBLEM_KINDS", "Problem", "ProblemKind"]

ProblemKind = Literal[
    # What a repair leaves out.
    "bad_line",
    "torn_tail",
    "incomplete_atom",
    # What no repair can mend.
    "bad_header",
    # What is told and stays: every line of it can be read.
    "broken_atom",
    "orphan",
    "duplicate_id",
    "unknown_target",
    "first_kept_off_path",
    # What only a look at every line sees; an opening does not ask.
    "bad_time",
    "other_spelling",
    "other_id",
    "long_line",
]

PROBLEM_KINDS: Final[tuple[ProblemKind, ...]] = get_args(ProblemKind)


class Problem(Struct, frozen=True):
    """Something in the file that was kept but does not mean what its writer meant."""

    line: int
    kind: ProblemKind
    detail: str
