"""Checks of entries for a program's file, in several dialects.

`file` stands for the file in errors, with its article: "a pi file".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import UnsetType

from sessiond.errors import EntryInvalid
from sessiond.model.entries import Compaction, Entry, Leaf, Opaque, SessionInfoEntry
from sessiond.model.ids import MAIN


def require_main(entry: Entry | Opaque, file: str) -> None:
    """Raise EntryInvalid for an entry of another head than main."""
    if not isinstance(entry.head, UnsetType) and entry.head != MAIN:
        raise EntryInvalid(f"{file} has only the head main", path="head")


def refuse_messages(entry: Compaction, file: str) -> None:
    """Raise EntryInvalid for a compaction by messages."""
    if not isinstance(entry.messages, UnsetType):
        raise EntryInvalid(f"{file} cannot hold replacement messages", path="messages")


def refuse_leaf(_: Leaf, file: str) -> None:
    """Raise EntryInvalid: the program has no leaf records."""
    raise EntryInvalid(
        f"{file} cannot hold a leaf record: move the head with session/branch", path="type"
    )


def require_only_name(entry: SessionInfoEntry, file: str) -> None:
    """Raise EntryInvalid for a session_info with another fact than a name, or without a name."""
    for name in facts_besides(entry, ("name",)):
        raise EntryInvalid(f"a session_info of {file} can only have a name", path=name)
    require_name(entry, file)


def require_name(entry: SessionInfoEntry, file: str) -> None:
    """Raise EntryInvalid for a session_info without a name, which would clear the name.

    The program takes the name from the last session_info.
    """
    if isinstance(entry.name, UnsetType):
        raise EntryInvalid(f"a session_info of {file} must have a name", path="name")


def facts_besides(entry: SessionInfoEntry, allowed: Collection[str]) -> Iterator[str]:
    """Yield the names of the stated facts that are not in `allowed`."""
    for name in entry.__struct_fields__:
        is_fact = name not in Entry.__struct_fields__ and name not in allowed
        if is_fact and not isinstance(getattr(entry, name), UnsetType):
            yield name
