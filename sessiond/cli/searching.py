"""Finding words in the session files of a profile, line by line, newest session first.

Law: files are read and nothing else, so no session is opened for it; a line that cannot be
read is no hit, and `verify` is there to say so. Case does not count.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from sessiond.cli.text import one_line
from sessiond.dialects import recognise
from sessiond.dialects.base import BadHeader, BadLine, Dialect
from sessiond.journal.files import Files
from sessiond.journal.layout import Layout
from sessiond.journal.recovery import Splitter
from sessiond.journal.scanning import chunks_of

__all__ = ["Hit", "search_files"]

_BEFORE_CHARS = 30
_SNIPPET_CHARS = 100


class Hit(Struct, frozen=True):
    """An entry that says it, and the words around the first place where it does."""

    session_id: str
    entry_id: str
    seq: int
    snippet: str


class _Summed(Struct):
    """What entries other than messages say."""

    summary: str | None = None
    content: str | None = None
    label: str | None = None
    name: str | None = None


def search_files(layout: Layout, query: str, cwd: str | None) -> Iterator[Path | list[Hit]]:
    """Each file that is looked at, then its hits. Raises StorageError for the folder."""
    files = Files()
    wanted = _Wanted(query)
    for path in sorted(layout.scan(files, drafts=False), key=lambda path: path.name, reverse=True):
        yield path
        try:
            fd = files.open_read(path)
        except OSError:
            continue  # it was moved meanwhile, or is nobody's to read: doctor says so
        try:
            yield _search_file(files, fd, layout.id_of(path), wanted, cwd)
        except BadHeader:
            continue
        finally:
            files.close(fd)


class _Wanted:
    """The words that are looked for."""

    def __init__(self, query: str) -> None:
        # Text, not bytes: only so does case not count in every script.
        self._pattern = re.compile(re.escape(query), re.IGNORECASE)
        # JSON spells these characters in more than one way; any other query is in the line
        # as it is, and most lines need no reading.
        plain = query.isascii() and query.isprintable() and not set(query) & set('"\\/')
        self._bytes = query.lower().encode() if plain else b""

    def may_be_in(self, line: bytes) -> bool:
        """Whether the line is worth reading."""
        return self._bytes in line.lower()

    def snippet(self, text: str) -> str | None:
        """The words around the first place, in one line; None if there is none."""
        found = self._pattern.search(text)
        if found is None:
            return None
        start = max(0, found.start() - _BEFORE_CHARS)
        lead = "…" if start else ""
        return lead + one_line(text[start : start + 4 * _SNIPPET_CHARS], _SNIPPET_CHARS)


class _Wrong(Exception):
    """A session of another project."""


def _search_file(
    files: Files, fd: int, session_id: str | None, wanted: _Wanted, cwd: str | None
) -> list[Hit]:
    hits: list[Hit] = []
    dialect: Dialect | None = None

    def visit(seq: int, line: bytes) -> None:
        nonlocal dialect, session_id
        if dialect is None:
            dialect, header = recognise(line)
            session_id = session_id or header.id
            if cwd is not None and header.cwd != cwd:
                raise _Wrong
        elif wanted.may_be_in(line):
            snippet = wanted.snippet(_text(dialect, line))
            if snippet is not None:
                hits.append(Hit(session_id or "", dialect.row(line).id, seq, snippet))

    splitter = Splitter(array("q", [0]), visit)
    try:
        for chunk in chunks_of(files, fd):
            splitter.feed(chunk)
    except _Wrong:
        return []
    return hits


def _text(dialect: Dialect, line: bytes) -> str:
    """What an entry says; nothing for a line that is none."""
    try:
        dialect.row(line)
        reading = dialect.reading(line)
        if reading is not None:
            return "\n".join(block.text for block in reading.blocks)
        found = msgspec.json.decode(line, type=_Summed)
    except (BadLine, msgspec.DecodeError):
        return ""
    return "\n".join(filter(None, (found.summary, found.content, found.label, found.name)))
