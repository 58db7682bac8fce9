"""The text of an entry by which a search finds the entry, in parts."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

__all__ = ["Part", "Searched"]


class Part(IntEnum):
    """The place of a text in its entry. The search index stores the numbers."""

    TITLE = 0
    MESSAGE = 1
    ARGUMENTS = 2
    OUTPUT = 3


class Searched(Struct, frozen=True):
    """One part of an entry: the text, its speaker, and of a tool the name and the id of the call.

    The name is "" where only the call has it.
    """

    part: Part
    text: str
    role: str = ""
    tool: str = ""
    call: str = ""
