"""Entries that a head leaves when it goes to another branch, and the part that is summarised.

Law: pure. The entries left are those below the last common ancestor; a compaction among them is one
more entry and ends nothing. The newest entries that fit a budget are summarised, and the files that
entries on the way name are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from sessiond.model.parsed_message import ParsedMessage, Summary
from sessiond.session.compaction.touched_files import FileTools, TouchedFiles, touched
from sessiond.session.index import Session

_ALMOST: Final = 0.9
"""A summary that exceeds the budget is still told while less than this share is used."""


class LeftStep(Struct, frozen=True):
    """An entry that the head leaves, and the message it would give a context, if any."""

    id: str
    reading: ParsedMessage | None = None
    tokens: int = 0
    summary: Summary | None = None
    """Summary of a compaction or a branch."""
    names_files: bool = False
    """True if the entry is a branch summary, whose files are added to those of the calls."""


class BranchMaterial(Struct, frozen=True):
    """The part of a branch that is summarised, oldest first."""

    steps: list[LeftStep]
    tokens: int
    files: TouchedFiles


def common_ancestor(session: Session, one: int, other: int) -> int:
    """Return the last entry that both paths have in common; 0 for none."""
    while one != other:
        if one > other:
            one = session.parents[one]
        else:
            other = session.parents[other]
    return one


def entries_left(session: Session, leaf: int, target: int) -> list[int]:
    """Return the entries of `leaf`'s path that are not on `target`'s, oldest first."""
    ancestor = common_ancestor(session, leaf, target)
    found: list[int] = []
    while leaf > ancestor:
        found.append(leaf)
        leaf = session.parents[leaf]
    found.reverse()
    return found


def gather(steps: Sequence[LeftStep], budget: int, tools: FileTools) -> BranchMaterial:
    """Return the newest messages within `budget` tokens, tool results aside, and the files named.

    A budget of 0 takes all messages. Files come from the branch summaries among all steps, and from
    the calls of the messages that were looked at for the budget.
    """
    named = [step.summary for step in steps if step.names_files and step.summary is not None]
    read = tuple(path for summary in named for path in summary.read)
    modified = tuple(path for summary in named for path in summary.modified)
    told: list[LeftStep] = []
    looked_at: list[ParsedMessage] = []
    tokens = 0
    for step in reversed(steps):
        reading = step.reading
        if reading is None or reading.is_result:
            continue
        looked_at.append(reading)
        if budget and tokens + step.tokens > budget:
            if step.summary is not None and tokens < budget * _ALMOST:
                told.append(step)
                tokens += step.tokens
            break
        told.append(step)
        tokens += step.tokens
    told.reverse()
    return BranchMaterial(told, tokens, touched(looked_at, TouchedFiles(read, modified), tools))
