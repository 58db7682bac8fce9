"""Lint of lines that parse: oddities that an opening neither looks for nor acts on.

Law: pure, and limited to what a reader of the file would want to know. Times that go back are not
odd: a client may set an entry's time, and clocks differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiond.dialects import DIALECTS
from sessiond.dialects.base import Dialect
from sessiond.dialects.lenient_json import lenient
from sessiond.limits import FRAME_BYTES_MAX
from sessiond.model.problems import ProblemKind

# Each spelling of the parent's member, and the first dialect that has the spelling.
_PARENTS: Final = {one.parent_member: one.name for one in reversed(DIALECTS)}


def oddities(dialect: Dialect, line: bytes) -> Iterator[tuple[ProblemKind, str]]:
    """Yield kind and detail of each oddity."""
    if len(line) > FRAME_BYTES_MAX:
        detail = f"{len(line)} bytes are more than a frame may have: not every client can take it"
        yield "long_line", detail
    if not dialect.timestamp(line):
        yield "bad_time", "it has no time that can be read; it is shown without"
    own = dialect.parent_member
    for parent, name in _PARENTS.items():
        # A search for the bytes comes first, since hardly any line has the other spelling.
        if parent != own and parent.encode() in line:
            found = lenient(line)
            if parent in found and own not in found:
                detail = f"it names its parent as {name} does, which is not read: shown as a root"
                yield "other_spelling", detail
