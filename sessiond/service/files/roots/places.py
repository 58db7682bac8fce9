"""Places of new files in roots: the folder and the name that the root's program would choose.

Rule 1: a root has a folder for each project where its program keeps one there, or where the root has
such folders already. A missing one is made, with the permissions that the program gives.

Rule 2: a draft lies in the profile, as every draft. A note beside the draft says where its file
belongs, so that a restart, or the loss of the catalog, does not send the file elsewhere. The note
goes only after the catalog has the file's new path on disk: until then nothing else names the file
by its id. A root on another disk has no drafts, because a file cannot be moved there in one step.

Rule 3: the note counts in its own home alone. In the copy of a home it is no note, so that of a draft and its copies
one comes to the root. A home that was moved has the folder of the note; one that was restored has its path.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.dialects import dialect_named
from sessiond.dialects.places import Appears, Home, Places, places_of
from sessiond.errors import InvalidParams, StorageError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.model.entries import Header
from sessiond.service.files.roots.roots import Root


class DraftNote(Struct, frozen=True):
    """The path that a draft's file gets, what the draft waits for, and the folder that the note was written in.

    A note of an earlier version names no folder.
    """

    path: str
    appears: Appears
    folder: str = ""
    inode: int = 0


class DamagedNote(StorageError):
    """The note of a draft is not what sessiond wrote."""


class RootPlace(Struct, frozen=True):
    """The path of a new file in a root; `appears` is "created" for one that is made at once."""

    path: Path
    appears: Appears


def header_line(root: Root, header: Header) -> bytes:
    """Return the first line of a file in a root. Raises InvalidParams for what it cannot hold."""
    dialect = dialect_named(root.kind)
    line = dialect.encode_header(header)
    held = dialect.decode_header(line)
    for name in ("title", "agent", "model", "tags", "system_prompt", "dry_run"):
        given = getattr(header, name)
        if given not in (None, []) and given != getattr(held, name):
            raise _cannot_hold(root, name)
    for name in ("compaction", "metadata"):
        if getattr(header, name) is not msgspec.UNSET and getattr(held, name) is msgspec.UNSET:
            raise _cannot_hold(root, name)
    return line


def _cannot_hold(root: Root, name: str) -> InvalidParams:
    text = f"the header of a file of {root.kind} holds no {name}: leave {name} out here"
    return InvalidParams(text, path=name)


def place_in_root(  # noqa: PLR0913 - a root, a session, and where both are
    layout: Layout,
    files: Files,
    root: Root,
    header: Header,
    homes: Sequence[tuple[str, Home]],
    beside: Path | None = None,
) -> RootPlace:
    """Return the place of a new session, in a folder that exists then. Raises InvalidParams, StorageError.

    The folder is `beside`, or the one of the project.
    """
    places = places_of(root.kind)
    folder = Path(root.path)
    with telling("create a session in", folder):
        # Never made: a root that is gone is a disk that is not there, or a mistake.
        names = files.listdir(folder)
        by_project = any(
            home.by_project and _leads_to(files, home.folder, root.path)
            for kind, home in homes
            if kind == root.kind
        )
        by_project = by_project or any(_is_project(name) for name in names)
        if beside is not None:
            folder = beside
        elif places.project_folder is not None and by_project:
            folder = _project_folder(files, folder, places, header.cwd)
        moment = datetime.fromisoformat(str(header.timestamp)).astimezone()
        same_disk = files.stat(folder).st_dev == files.stat(layout.pending).st_dev
    name = places.file_name(moment, header.id)
    return RootPlace(folder / name, places.appears if same_disk else "created")


def _leads_to(files: Files, folder: str, root: str) -> bool:
    """Return whether a path leads to a root, which has answered."""
    try:
        return files.real(folder) == root
    except TimeoutError:
        return False


def _is_project(name: str) -> bool:
    return name.startswith("--") and name.endswith("--") and len(name) >= len("----")


def _project_folder(files: Files, root: Path, places: Places, cwd: str) -> Path:
    assert places.project_folder is not None, "the caller checked this"
    if not cwd:
        text = "the root has a folder for each project, and the session names none: send cwd"
        raise InvalidParams(text, path="cwd")
    name = places.project_folder(files.real(cwd) if places.follows_links else cwd)
    folder = root / name
    if "/" in name or "\0" in name or len(os.fsencode(name)) > os.pathconf(root, "PC_NAME_MAX"):
        raise OSError(errno.ENAMETOOLONG, "the project's path is too long for a folder's name")
    if files.make_shared_folder(folder, places.folder_mode):
        files.fsync_folder(root)
    return Path(files.real(folder))


# -- drafts ------------------------------------------------------------------------------------


def note_of(files: Files, place: RootPlace, folder: Path) -> bytes:
    """Return the note of a draft in a folder. Raises OSError."""
    inode = files.stat(folder).st_ino
    return msgspec.json.encode(DraftNote(str(place.path), place.appears, str(folder), inode))


def read_note(files: Files, path: Path) -> DraftNote | None:
    """Return the note of a draft; None if the draft belongs to the profile.

    Raises DamagedNote, StorageError.
    """
    folder = path.parent
    with telling("read", path):
        try:
            fd = files.open_read(path)
        except FileNotFoundError:
            return None
        try:
            data = files.pread(fd, files.fstat(fd).st_size, 0)
        finally:
            close_quietly(files, fd)
        inode = files.stat(folder).st_ino
    try:
        note = typed.decode(data, DraftNote)
    except msgspec.DecodeError as error:
        text = f"{path} is damaged: remove it, and the draft's file comes into the profile"
        raise DamagedNote(text, errno="EINVAL", path=str(path), retryable=False) from error
    is_own = note.folder in {"", str(folder)} or note.inode == inode
    return note if is_own else None
