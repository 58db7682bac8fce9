"""The content of a compaction or branch summary: its text and the files it names.

Law: the dialects differ only in the spelling of the names, `readFiles` and `read_files`. The
files in a summary of an extension (`fromHook`) are ignored, because they are not reliable.
"""

from __future__ import annotations

from msgspec import Raw

from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.model.parsed_message import Summary


def summary_of(line: bytes) -> Summary:
    """Return the summary in a stored line; a summary without text if the line has none."""
    found = lenient(line)
    foreign = any(bytes(found.get(name, b"")) == b"true" for name in ("fromHook", "from_hook"))
    details = {} if foreign else lenient(found.get("details", b""))
    return Summary(
        text(found.get("summary")),
        _paths(details, ("readFiles", "read_files")),
        _paths(details, ("modifiedFiles", "modified_files")),
    )


def _paths(details: dict[str, Raw], names: tuple[str, ...]) -> tuple[str, ...]:
    listed = next((details[name] for name in names if name in details), Raw(b""))
    paths = (text(item) for item in items(listed) or ())
    return tuple(path for path in paths if path is not None)
