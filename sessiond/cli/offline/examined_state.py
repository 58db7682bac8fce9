"""Checks of `doctor` on the state store, the secrets and their key file.

Law: no key is read, no key command is run, and nothing is decrypted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sessiond.cli.connect.probe import who_serves
from sessiond.cli.connect.target import layout_of
from sessiond.cli.offline.examination import Finding
from sessiond.cli.options import DaemonPlace
from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Sources, load
from sessiond.daemon.secret_keys import key_settings
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.names import namespace_aside, namespace_in
from sessiond.state import codec
from sessiond.state.folder import read_whole
from sessiond.state.key_file import KeyFile
from sessiond.visible import counted


def examine_state(place: DaemonPlace) -> Iterator[Finding]:
    """Yield a finding for each folder of documents, each file that is none, and the key file."""
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
    yield from _key(place, layout, files)


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


def _key(place: DaemonPlace, layout: Layout, files: Files) -> Iterator[Finding]:
    """Yield a finding for the source of the keys if something needs or has one."""
    try:
        settings = key_settings(load(Sources(os.environ, place.config))[0].secrets, layout)
    except BadConfiguration:
        return  # the check of the configuration reports it
    file = KeyFile(files, settings.file, layout.home)
    try:
        names = files.listdir(layout.secrets) if files.exists(layout.secrets) else []
        needed = sum(namespace_in(name) is not None for name in names)
        if needed and settings.command:
            what = "a command gives the keys of the secrets; doctor does not run it"
            yield Finding("key", ok=True, what=what)
        elif needed or files.exists(file.path):
            yield _key_file(file, needed)
        yield from _unfinished_keys(file, layout, needed)
    except OSError as error:
        what = f"{error.filename or file.path}: {error.strerror or error}"
        yield Finding("key", ok=False, what=what, next="look at the path and its permissions")


def _key_file(file: KeyFile, needed: int) -> Finding:
    """Return a finding for a key file that is there or needed. Raises OSError."""
    try:
        flaw = file.flaw()
    except FileNotFoundError:
        what = f"{file.path} is missing, and {counted(needed, 'namespace')} of secrets need it"
        then = "bring it back from a copy, or name its place with secrets.key_file"
        return Finding("key", ok=False, what=what, next=then)
    if flaw is not None:
        return Finding("key", ok=False, what=f"{file.path} {flaw.why}", next=flaw.then)
    return Finding("key", ok=True, what=f"{file.path} is readable, and by this user alone")


def _unfinished_keys(file: KeyFile, layout: Layout, needed: int) -> Iterator[Finding]:
    found = file.unfinished()
    if found and who_serves(layout) is None:
        # While a daemon runs, an unfinished key file may be one that the daemon is making now.
        what = (
            f"{counted(len(found), 'unfinished key file')} of a killed daemon, the first {found[0]}"
        )
        then = "the next start of a daemon" if needed else "the first secret that is stored"
        yield Finding("key", ok=True, what=what, next=f"{then} removes such files")
