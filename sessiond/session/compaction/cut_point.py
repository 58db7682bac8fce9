"""Where a context is cut when it is compacted, and what of it is summarised.

Law: pure, and bound to what it was given. A cut never falls on a tool result, so that no
context begins with one. Where it falls inside a turn, the beginning of that turn is
summarised apart: the newest messages make no sense without it.

    history …… | beginning of a turn …… | kept …… leaf
               turn_start               first_kept
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.parsed_message import Reading
from sessiond.session.compaction.policy import Preset
from sessiond.session.compaction.touched_files import NO_FILES, Files, touched

__all__ = ["Cut", "Parts", "Past", "Reason", "Step", "cut_point", "divide"]

Reason = Literal["empty", "compacted", "fits"]

_SUMMARIES: Final = frozenset(
    {"branchSummary", "branch_summary", "compactionSummary", "compaction_summary"}
)
_BEGIN_A_TURN: Final = _SUMMARIES | {"user", "bashExecution", "custom"}


class Step(Struct, frozen=True):
    """One entry of the path, and the message it gives the context, if any."""

    id: str
    reading: Reading | None = None
    tokens: int = 0
    is_compaction: bool = False

    @property
    def begins_turn(self) -> bool:
        """Whether it is what a model answers to."""
        found = self.reading
        return found is not None and found.role in _BEGIN_A_TURN and not found.is_result

    @property
    def can_begin(self) -> bool:
        """Whether a context may begin with it."""
        found = self.reading
        return self.begins_turn or (found is not None and found.role == "assistant")


class Past(Struct, frozen=True):
    """What an earlier compaction left: its summary, or the messages it put in place of all."""

    summary: str | None = None
    files: Files = NO_FILES
    id: str = ""
    messages: tuple[Reading, ...] = ()


class Cut(Struct, frozen=True):
    """The first step that is kept, and where its turn begins if that is not with it."""

    first_kept: int
    turn_start: int | None = None


class Parts(Struct, frozen=True):
    """A path in its parts; the steps of the first two give messages."""

    history: list[Step]
    turn_prefix: list[Step]
    first_kept: Step
    files: Files


def divide(steps: Sequence[Step], past: Past, budget: int, preset: Preset) -> Parts | Reason:
    """What to summarise of these steps so that about `budget` tokens are kept; or why nothing."""
    if not steps:
        return "compacted" if past.id else "empty"
    cut = cut_point(steps, budget, preset.stops)
    if cut is None:
        return "fits"
    begin = cut.first_kept if cut.turn_start is None else cut.turn_start
    history = [step for step in steps[:begin] if step.reading is not None]
    prefix = [step for step in steps[begin : cut.first_kept] if step.reading is not None]
    if not history and not prefix and not past.messages:
        return "fits"
    readings = [step.reading for step in (*history, *prefix) if step.reading is not None]
    files = touched((*past.messages, *readings), past.files, preset.files)
    return Parts(history, prefix, steps[cut.first_kept], files)


def cut_point(
    steps: Sequence[Step], budget: int, stops: Literal["reached", "exceeded"]
) -> Cut | None:
    """Where to cut so that about `budget` tokens are kept. Steps that cannot be cut are all kept.

    pi keeps the message that reaches the budget, and everything if none does; sharur cuts
    below the one that exceeds it, and gives None if none does.
    """
    if stops == "exceeded":
        return _below_exceeding(steps, budget)
    points = [index for index, step in enumerate(steps) if step.can_begin]
    if not points:
        return Cut(0)
    cut, kept = points[0], 0
    for index in range(len(steps) - 1, -1, -1):
        if steps[index].reading is None:
            continue
        kept += steps[index].tokens
        if kept >= budget:
            cut = next((point for point in points if point >= index), points[-1])
            break
    # What gives no message stays with the message it stands before.
    while cut > 0 and steps[cut - 1].reading is None and not steps[cut - 1].is_compaction:
        cut -= 1
    if steps[cut].begins_turn:
        return Cut(cut)
    return Cut(cut, _turn_start(steps, cut, _BEGIN_A_TURN))


def _below_exceeding(steps: Sequence[Step], budget: int) -> Cut | None:
    points = [index for index, step in enumerate(steps) if step.can_begin]
    kept = 0
    for index in range(len(steps) - 1, -1, -1):
        kept += steps[index].tokens
        if kept > budget:
            break
    else:
        return None
    if not points:
        return None
    cut = next((point for point in points if point >= index), points[-1])
    user = frozenset({"user"})
    if _turn_start(steps[cut:], 0, user) == 0:
        return Cut(cut)
    return Cut(cut, _turn_start(steps, cut, user))


def _turn_start(steps: Sequence[Step], cut: int, roles: frozenset[str]) -> int | None:
    """The nearest step at or above the cut that a turn begins with."""
    for index in range(cut, -1, -1):
        step = steps[index]
        if step.begins_turn and step.reading is not None and step.reading.role in roles:
            return index
    return None
