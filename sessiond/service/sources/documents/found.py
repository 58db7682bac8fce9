"""The formats of sessions that are one JSON document each, and the format that a content has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.dialects.lenient_json import lenient
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.regular import check_regular, open_regular
from sessiond.journal.scanning import chunks_of
from sessiond.limits import IMPORT_BYTES_MAX
from sessiond.model.formats import WholeFormatName
from sessiond.service.sources.documents.construct import (
    construct_lines,
    construct_source,
    title_in_index,
)
from sessiond.service.sources.documents.nova import nova_lines, nova_members


class NewSession(Struct, frozen=True):
    """Id and project of a copy, and the content of the `index.json` beside the document."""

    session_id: str
    cwd: str | None
    index: bytes | None


Lines = Callable[[NewSession], list[bytes]]


class FoundDocument(Struct, frozen=True):
    """A format, and the work that makes the lines of a native file, which raises SessionCorrupt."""

    name: WholeFormatName
    lines: Lines


def may_be_document(first_line: bytes) -> bool:
    """Return whether a content that begins with this line can be one JSON document."""
    # No JSON has zeros, and of a file with holes they would be many.
    if not first_line.lstrip().startswith((b"{", b"[")) or b"\0" in first_line:
        return False
    # A line that is a whole object is the document, or the first of many lines.
    known = lenient(first_line)
    return not known or ("type" not in known and any(one in known for one in _OWN))


def found_document(name: str, content: bytes) -> FoundDocument | None:
    """Return the document that a content is; None for any other content. Raises SessionCorrupt."""
    for form, find in _FINDERS.items():
        lines = find(name, content)
        if lines is not None:
            return FoundDocument(form, lines)
    return None


def document_at(files: Files, path: Path) -> FoundDocument | None:
    """Return the document that a file is; None for any other file. Raises SessionCorrupt, StorageError."""
    with telling("read", path):
        fd = open_regular(files, path)
        try:
            size = check_regular(files, fd)
            chunks = chunks_of(files, fd, 0, size)
            first = next(chunks, b"")
            line, _, rest = first.partition(b"\n")
            # Behind a damaged header of a file of many lines stands an entry.
            is_whole = may_be_document(line) and not lenient(rest.partition(b"\n")[0])
            read = [first] if is_whole and size <= IMPORT_BYTES_MAX else []
            while read and b"\0" not in read[-1]:
                if not (chunk := next(chunks, b"")):
                    return found_document(str(path), b"".join(read))
                read.append(chunk)
            return None
        finally:
            files.close(fd)


def _construct(name: str, content: bytes) -> Lines | None:
    source = construct_source(name, content)
    if source is None:
        return None

    def lines(new: NewSession) -> list[bytes]:
        title = None if new.index is None else title_in_index(new.index, source)
        return construct_lines(source, new.session_id, new.cwd, title)

    return lines


def _nova(name: str, content: bytes) -> Lines | None:
    if nova_members(content) is None:
        return None
    return lambda new: nova_lines(name, content, new.session_id, new.cwd)


_OWN: Final = ("turns", "Turns", "session_id")
"""Members, one of which every document has that is no array."""
_FINDERS: Final[Mapping[WholeFormatName, Callable[[str, bytes], Lines | None]]] = {
    "construct": _construct,
    "nova": _nova,
}
