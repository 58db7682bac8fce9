"""Session files that arguments of a command name: files, and folders with files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.errors import SessiondError

_ENDING: Final = ".jsonl"
# Codex compresses old files.
_PACKED: Final = ".jsonl.zst"
# The files of Construct's sessions mostly stand beside an index, those of Nova's never.
_DOCUMENT: Final = ".json"
_INDEX: Final = "index.json"
# Codex keeps the names of its sessions beside the folders of their files, and with Claude Code the prompts.
_BESIDE: Final = frozenset({"session_index.jsonl", "history.jsonl"})
# Each channel of opencode has a database of its own.
_STORE: Final = "opencode"
_DATABASE: Final = ".db"


_MAGIC: Final = b"SQLite format 3\0"


class Found(Struct, frozen=True):
    """A file by its name; `in_folder` if an argument named its folder.

    `source_id` names one session of a store; the store counts as a folder.
    """

    name: str
    in_folder: bool = False
    source_id: str | None = None


def found_files(arguments: Sequence[str], source_id: str | None = None) -> list[Found]:
    """Return the files that the arguments name, folders replaced by their session files, sorted.

    A store of opencode is replaced by its sessions, parents first, unless `source_id` names one. A
    folder or a store that cannot be read stands for itself, so that its error is told. Links to folders
    are not followed.
    """
    found: list[Found] = []
    for argument in arguments:
        path = Path(argument).expanduser()
        if argument == "-" or source_id is not None:
            found.append(Found(argument, source_id=source_id))
        elif _is_tree(path) or not path.is_dir():
            found += _sessions_in(argument, path) or [Found(argument)]
        else:
            for name in sorted(_files_below(str(path))):
                found += _sessions_in(name, Path(name)) or [Found(name, in_folder=True)]
    return found


def _is_tree(folder: Path) -> bool:
    """Return whether a folder is a tree of sessions of an older opencode."""
    return (folder / "session").is_dir() and (folder / "message").is_dir()


def _sessions_in(name: str, path: Path) -> list[Found]:
    """Return the sessions of a store of opencode; none for any other file or folder."""
    try:
        if not _is_tree(path):
            if not path.is_file():
                return []
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    return []
        # Few imports meet a store, and its reader brings much along.
        from sessiond.journal.disk.files import Files
        from sessiond.service.sources.agents.opencode.store import found_store, parents_first

        store = found_store(path, Files())
        sessions = [] if store is None else parents_first(store.sessions())
    except (OSError, SessiondError):
        return []
    return [Found(name, in_folder=True, source_id=one.id) for one in sessions]


def _files_below(folder: str) -> Iterator[str]:
    unreadable: list[str] = []
    for parent, folders, names in os.walk(
        folder, onerror=lambda error: unreadable.append(error.filename)
    ):
        if _is_tree(Path(parent)):
            folders.clear()
            yield parent
            continue
        yield from (str(Path(parent, name)) for name in names if _is_session(name))
        documents = (one for one in names if one.endswith(_DOCUMENT) and one != _INDEX)
        paths = (Path(parent, name) for name in documents)
        yield from (str(path) for path in paths if _INDEX in names or _is_document(path))
    yield from unreadable


def _is_document(path: Path) -> bool:
    """Return whether a file without an index beside it is a document of Nova or Construct."""
    # Few imports meet such a file, and its readers bring much along.
    from sessiond.journal.disk.files import Files
    from sessiond.service.sources.documents.found import document_at

    try:
        return document_at(Files(), path) is not None
    except SessiondError:
        return False


def _is_session(name: str) -> bool:
    is_store = name.startswith(_STORE) and name.endswith(_DATABASE)
    return is_store or (name.endswith((_ENDING, _PACKED)) and name not in _BESIDE)
