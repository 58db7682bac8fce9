"""What a head leaves behind when it goes to another branch, and what of it is summarised.

Law: pure. What is left are the entries below the last common ancestor; a compaction among
them is one more entry and ends nothing. The newest that fit a budget are told, the files of
all of them are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from sessiond.model.parsed_message import Reading, Summary
from sessiond.session.compaction.touched_files import Files, FileTools, touched
from sessiond.session.index import Session

__all__ = ["LeftStep", "Told", "common_ancestor", "entries_left", "gather"]

_ALMOST: Final = 0.9
"""A summary that exceeds the budget is still told while less than this share is used."""


class LeftStep(Struct, frozen=True):
    """One entry that is left, and the message it would give, if any."""

    id: str
    reading: Reading | None = None
    tokens: int = 0
    summary: Summary | None = None
    """Of a compaction or a branch."""
    names_files: bool = False
    """It is the summary of a branch: the files it names are its own."""


class Told(Struct, frozen=True):
    """What is summarised of a branch, oldest first."""

    steps: list[LeftStep]
    tokens: int
    files: Files


def common_ancestor(session: Session, one: int, other: int) -> int:
    """The last entry that both paths have in common; 0 for none."""
    while one != other:
        if one > other:
            one = session.parents[one]
        else:
            other = session.parents[other]
    return one


def entries_left(session: Session, leaf: int, target: int) -> list[int]:
    """The entries of `leaf`'s path that are not on `target`'s, oldest first."""
    ancestor = common_ancestor(session, leaf, target)
    found: list[int] = []
    while leaf > ancestor:
        found.append(leaf)
        leaf = session.parents[leaf]
    found.reverse()
    return found


def gather(steps: Sequence[LeftStep], budget: int, tools: FileTools) -> Told:
    """The newest messages within `budget` tokens (0: all), tool results aside, and all their files."""
    named = [step.summary for step in steps if step.names_files and step.summary is not None]
    read = tuple(path for summary in named for path in summary.read)
    modified = tuple(path for summary in named for path in summary.modified)
    told: list[LeftStep] = []
    looked_at: list[Reading] = []
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
    return Told(told, tokens, touched(looked_at, Files(read, modified), tools))
