"""Session files that arguments of a command name: files, and folders with files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ["Found", "found_files"]

_ENDING: Final = ".jsonl"
# Codex compresses old files.
_PACKED: Final = ".jsonl.zst"
# The files of Construct's sessions stand beside an index.
_DOCUMENT: Final = ".json"
_INDEX: Final = "index.json"
# Codex keeps the names of its sessions beside the folders of their files.
_NAMES: Final = "session_index.jsonl"


class Found(Struct, frozen=True):
    """A file by its name; `in_folder` if an argument named its folder."""

    name: str
    in_folder: bool = False


def found_files(arguments: Sequence[str]) -> list[Found]:
    """Return the files that the arguments name, folders replaced by their session files, sorted.

    A folder that cannot be read stands for itself, so that its error is told. Links to folders are
    not followed.
    """
    found: list[Found] = []
    for argument in arguments:
        folder = Path(argument).expanduser()
        if argument != "-" and folder.is_dir():
            found += [Found(name, in_folder=True) for name in sorted(_files_below(str(folder)))]
        else:
            found.append(Found(argument))
    return found


def _files_below(folder: str) -> Iterator[str]:
    unreadable: list[str] = []
    for parent, _, names in os.walk(
        folder, onerror=lambda error: unreadable.append(error.filename)
    ):
        yield from (str(Path(parent, name)) for name in names if _is_session(name))
        if _INDEX in names:
            documents = (one for one in names if one.endswith(_DOCUMENT) and one != _INDEX)
            yield from (str(Path(parent, name)) for name in documents)
    yield from unreadable


def _is_session(name: str) -> bool:
    return name.endswith((_ENDING, _PACKED)) and name != _NAMES
