"""Cut of a context for its compaction, and the part that is summarised.

Law: pure, and based only on the arguments. A cut never falls on a tool result, so that no context
begins with one. Where a cut falls inside a turn, the beginning of that turn is summarised apart,
since the newest messages make no sense without it.

    history …… | beginning of a turn …… | kept …… leaf
               turn_start               first_kept
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from sessiond.model.parsed_message import ParsedMessage
from sessiond.session.compaction.policy import Preset
from sessiond.session.compaction.touched_files import NO_FILES, TouchedFiles, touched

Reason = Literal["empty", "compacted", "fits"]

_SUMMARIES: Final = frozenset(
    {"branchSummary", "branch_summary", "compactionSummary", "compaction_summary"}
)
_BEGIN_A_TURN: Final = _SUMMARIES | {"user", "bashExecution", "custom"}


class Step(Struct, frozen=True):
    """An entry of the path, and the message it gives the context, if any."""

    id: str
    reading: ParsedMessage | None = None
    tokens: int = 0
    is_compaction: bool = False

    @property
    def begins_turn(self) -> bool:
        """Return whether a model answers to this message."""
        found = self.reading
        return found is not None and found.role in _BEGIN_A_TURN and not found.is_result

    @property
    def can_begin(self) -> bool:
        """Return whether a context may begin with this message."""
        found = self.reading
        return self.begins_turn or (found is not None and found.role == "assistant")


class Past(Struct, frozen=True):
    """Remains of an earlier compaction: its summary, or the messages that replaced the context."""

    summary: str | None = None
    files: TouchedFiles = NO_FILES
    id: str = ""
    messages: tuple[ParsedMessage, ...] = ()


class Cut(Struct, frozen=True):
    """The first kept step, and the start of its turn if the turn starts earlier."""

    first_kept: int
    turn_start: int | None = None


class Parts(Struct, frozen=True):
    """A path in its parts; all steps of `history` and `turn_prefix` have messages."""

    history: list[Step]
    turn_prefix: list[Step]
    first_kept: Step
    files: TouchedFiles


def divide(steps: Sequence[Step], past: Past, budget: int, preset: Preset) -> Parts | Reason:
    """Return what to summarise to keep `budget` tokens, or why there is nothing."""
    if not steps:
        return "compacted" if past.id else "empty"
    return divide_at(steps, past, cut_point(steps, budget, preset.keeps), preset)


def divide_at(steps: Sequence[Step], past: Past, cut: Cut | None, preset: Preset) -> Parts | Reason:
    """Return what to summarise before a cut, or why there is nothing."""
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
    steps: Sequence[Step], budget: int, keeps: Literal["about", "at least"]
) -> Cut | None:
    """Return where to cut so that `budget` tokens are kept; None for no cut.

    If no step can be cut at, all steps are kept. pi cuts at the message that reaches the budget, or at the
    next one that can be cut at, and keeps everything if no message reaches the budget. sharur cuts at the
    last step that keeps the budget, and gives None if all steps together do not keep it.
    """
    if keeps == "at least":
        return _last_that_keeps(steps, budget)
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
    # An entry without a message stays with the message that follows it.
    while cut > 0 and steps[cut - 1].reading is None and not steps[cut - 1].is_compaction:
        cut -= 1
    if steps[cut].begins_turn:
        return Cut(cut)
    return Cut(cut, _turn_start(steps, cut, _BEGIN_A_TURN))


def cut_before(steps: Sequence[Step], entry_id: str) -> Cut | None:
    """Return the cut that keeps from an entry on.

    None if the entry is no step, or if the first message from there on cannot begin a context.
    """
    at = next((index for index, step in enumerate(steps) if step.id == entry_id), len(steps))
    first = next((step for step in steps[at:] if step.reading is not None), None)
    if first is None or not first.can_begin:
        return None
    return Cut(at) if first.begins_turn else Cut(at, _turn_start(steps, at, _BEGIN_A_TURN))


def _last_that_keeps(steps: Sequence[Step], budget: int) -> Cut | None:
    cut, kept, user = len(steps), 0, frozenset({"user"})
    for index in range(len(steps) - 1, -1, -1):
        kept += steps[index].tokens
        if steps[index].can_begin:
            cut = index
            if kept >= budget:
                break
    if cut == len(steps) or kept < budget:
        return None
    turn = _turn_start(steps, cut, user)
    return Cut(cut, None if turn == cut else turn)


def _turn_start(steps: Sequence[Step], cut: int, roles: frozenset[str]) -> int | None:
    """Return the nearest step at or above the cut that begins a turn; None without one."""
    for index in range(cut, -1, -1):
        step = steps[index]
        if step.begins_turn and step.reading is not None and step.reading.role in roles:
            return index
    return None
