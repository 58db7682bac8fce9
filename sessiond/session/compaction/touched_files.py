"""Files that a conversation touched, taken from its tool calls.

Law: each summary carries the file lists of the one before, so the lists outlive the messages that
named the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Raw, Struct

from sessiond.model.parsed_message import ParsedMessage
from sessiond.session.context.stringify import members_of, whole_text


class TouchedFiles(Struct, frozen=True):
    """Files by what was done to them, each list sorted."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


class FileTools(Struct, frozen=True):
    """The tools that touch files, and the arguments that may hold the file's path."""

    reading: frozenset[str]
    modifying: frozenset[str]
    arguments: tuple[str, ...] = ("path",)
    apart: bool = True
    """True if a modified file is left out of the files that were read."""


NO_FILES: Final = TouchedFiles()


def touched(
    readings: Iterable[ParsedMessage], earlier: TouchedFiles, tools: FileTools
) -> TouchedFiles:
    """Return the files of the calls in these messages together with the earlier files."""
    read, modified = set(earlier.read), set(earlier.modified)
    for reading in readings:
        for is_modified, path in touches(reading, tools):
            (modified if is_modified else read).add(path)
    if tools.apart:
        read -= modified
    return TouchedFiles(_in_order(read), _in_order(modified))


def touches(reading: ParsedMessage, tools: FileTools) -> Iterator[tuple[bool, str]]:
    """Yield each file that the calls of a message touch, and whether the call modifies the file."""
    if reading.role != "assistant":
        return
    for block in reading.blocks:
        if block.kind != "tool_call" or block.arguments is None:
            continue
        if block.name in tools.reading or block.name in tools.modifying:
            for path in _named(block.arguments, tools.arguments):
                yield block.name not in tools.reading, path


def _named(arguments: Raw, names: tuple[str, ...]) -> Iterable[str]:
    """Return the file that a call names: the first of these arguments that is a text."""
    said = [(members_of(arguments) or {}).get(name) for name in names]
    path = next((path for path in said if isinstance(path, str) and path), None)
    return () if path is None else (whole_text(path),)


def _in_order(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths sorted by UTF-16 units, as JavaScript sorts."""
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))
