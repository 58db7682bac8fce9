"""What a compaction or the summary of a branch says, and which files it names.

Law: the same words in every dialect here but for how they are joined: `readFiles` and
`read_files`. What an extension wrote (`fromHook`) names no files that can be relied on.
"""

from __future__ import annotations

from msgspec import Raw

from sessiond.dialects.lenient_json import items, lenient, text
from sessiond.model.parsed_message import Summary

__all__ = ["summary_of"]


def summary_of(line: bytes) -> Summary:
    """The summary in a stored line; one without text if there is none."""
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
