"""Files of pi's family, of any length: questions and answers in turn, each below the one before."""

from __future__ import annotations

from sessiond.dialects import DIALECTS, dialect_named
from sessiond.model.entries import Header, Message
from sessiond.model.parsed_message import Block, ParsedMessage
from tests.kit.sessions import TIME

__all__ = ["FAMILY", "family_file", "family_id", "family_lines"]

FAMILY = tuple(dialect.name for dialect in DIALECTS)
"""Names of the programs, and of sessiond's own format."""


def family_id(number: int) -> str:
    """Return an id of a session that each of the programs takes."""
    return f"019f5000-0000-7000-8000-{number:012x}"


def family_lines(name: str, messages: int, size: int = 100, *, number: int = 1) -> list[bytes]:
    """Return the lines of a file of one of the programs; each message has about so many characters."""
    dialect = dialect_named(name)
    header = Header(id=family_id(number), timestamp=TIME, cwd="/p")
    lines = [dialect.encode_header(header)]
    dialect = dialect.for_file(dialect.decode_header(lines[0]))
    above: str | None = None
    for at in range(messages):
        said = Block("text", text=f"turn {at} " + "x" * size)
        role = "assistant" if at % 2 else "user"
        (message,) = dialect.compose(ParsedMessage(role, (said,), model_id="m"), TIME)
        entry_id = f"{at:08x}-0000-4000-8000-{number:012x}"
        entry = Message(id=entry_id, parent_id=above, timestamp=TIME, message=message)
        lines.append(dialect.encode(entry))
        above = entry_id
    return [line + b"\n" for line in lines]


def family_file(name: str, messages: int, size: int = 100, *, number: int = 1) -> bytes:
    """Return a file of one of the programs, as `family_lines` has its lines."""
    return b"".join(family_lines(name, messages, size, number=number))
