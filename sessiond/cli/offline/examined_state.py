"""Checks of `doctor` on the state store and the secrets: files that are no documents, or were put aside.

Law: no key is read and nothing is decrypted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sessiond.cli.connect.target import layout_of
from sessiond.cli.offline.examination import Finding
from sessiond.cli.options import DaemonPlace
from sessiond.cli.ui.text import counted
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.names import namespace_aside, namespace_in
from sessiond.state import codec
from sessiond.state.folder import read_whole

__all__ = ["examine_state"]


def examine_state(place: DaemonPlace) -> Iterator[Finding]:
    """Yield a finding for each folder of documents, and for each file that is none."""
    layout, files = layout_of(place), Files()
    for name, folder, kind in (
        ("state", layout.state, codec.STATE),
        ("secrets", layout.secrets, codec.SECRETS),
    ):
        try:
            yield from _folder(name, folder, kind, files)
        except OSError as error:
            what = f"{error.filename or folder}: {error.strerror or error}"
            yield Finding(name, ok=False, what=what, next="look at the path and its permissions")


def _folder(name: str, folder: Path, kind: str, files: Files) -> Iterator[Finding]:
    names = sorted(files.listdir(folder)) if files.exists(folder) else []
    good = 0
    for file in names:
        namespace = namespace_in(file)
        if namespace is not None:
            finding = _document(name, folder / file, namespace, kind, files)
            good += finding is None
            yield from () if finding is None else (finding,)
        elif namespace_aside(file) is not None:
            what = f"{folder / file} was put aside: it was no document, or not the daemon's own"
            yield Finding(name, ok=False, what=what, next="look at it, then rename or remove it")
    if good:
        yield Finding(name, ok=True, what=f"{counted(good, 'namespace')} in {folder}")


def _document(name: str, path: Path, namespace: str, kind: str, files: Files) -> Finding | None:
    """Return what is wrong with a file; None if nothing is."""
    data, _ = read_whole(files, path)
    try:
        codec.decode_as(kind, data, namespace)
    except codec.Damaged as damaged:
        then = "bring a copy back; else the next start of a daemon puts the file aside"
        return Finding(name, ok=False, what=f"{path}: {damaged}", next=then)
    except codec.NewerVersion:
        what = f"{path} was written by a newer sessiond"
        return Finding(name, ok=False, what=what, next="use that version, or move the file away")
    return None
