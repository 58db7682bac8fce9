"""The text of an entry by which a search finds the entry, in parts."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from msgspec import Struct

from sessiond.model.times import TimeText

Speaker = Literal["user", "assistant", "tool", "custom", "summary", "title"]
"""The roles by which searches tell texts apart: a call is the assistant's, an output a tool's."""


class Part(IntEnum):
    """The place of a text in its entry. The search index stores the numbers."""

    TITLE = 0
    MESSAGE = 1
    ARGUMENTS = 2
    OUTPUT = 3


class Unsearched(Struct, frozen=True):
    """Texts that are not searched, since the index has no room for them: those of a kind from before a time."""

    texts: Literal["outputs", "arguments", "messages"]
    before: TimeText


class Searched(Struct, frozen=True):
    """One part of an entry: the text, its speaker, and of a tool the name and the id of the call.

    The name is "" where only the call has it.
    """

    part: Part
    text: str
    role: Speaker = "user"
    tool: str = ""
    call: str = ""
