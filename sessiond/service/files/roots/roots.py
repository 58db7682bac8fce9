"""Roots: folders with session files of any program, listed beside the profile's own.

Rule 1: a root is named by its path without symbolic links, so two spellings are one root.

Rule 2: the files of a root are those in its folder and in the folders directly below: programs that
make a folder for each project go no deeper. Other agents keep their files deeper; for these the
agent's places say which folders and which names count.

Rule 3: roots come from the configuration, and from `roots.json` in the profile, which holds those
that a client added. A damaged `roots.json` is reported and left as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from sessiond import typed
from sessiond.catalog.rows import Known
from sessiond.dialects.agents.places import agent_places
from sessiond.errors import InvalidParams, StorageError
from sessiond.journal.disk.descriptor import close_quietly
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.making import write_unfinished
from sessiond.model.formats import FormatName
from sessiond.service.files.guarded_files import guarded
from sessiond.service.log.open_session import OpenSession
from sessiond.service.store.listed import Whereabouts
from sessiond.service.store.roots import RootOfCopy
from sessiond.service.thread_pool import ThreadPool
from sessiond.visible import printable

_VERSION: Final = 1
_SUFFIX: Final = ".jsonl"
_LINKS_MAX: Final = 40

OWN: Final = "the folder is part of the profile, whose sessions are listed anyway"


class Root(Struct, frozen=True):
    """A folder of session files; `kind` is the dialect, or the agent, that makes files there.

    `outputs` is false if the outputs of tools in its sessions are not searched.
    """

    path: str
    kind: str
    configured: bool = False
    outputs: bool = True

    @property
    def is_agents(self) -> bool:
        """True if the files are an agent's, which are only read."""
        return agent_places(self.kind) is not None

    @property
    def has_databases(self) -> bool:
        """True if sessions may be rows of databases."""
        places = agent_places(self.kind)
        return places is not None and places.has_databases

    def leads_to(self, parts: tuple[str, ...]) -> bool:
        """Return whether a folder below may have session files; `parts` lead there from the root."""
        if parts[-1].startswith("."):
            return False
        places = agent_places(self.kind)
        return len(parts) == 1 if places is None else places.is_folder(parts)

    def has_session(self, parts: tuple[str, ...]) -> bool:
        """Return whether a file below may be a session, by its name; `parts` as in `leads_to`."""
        places = agent_places(self.kind)
        return is_session_name(parts[-1]) if places is None else places.is_session(parts)

    def holds(self, path: Path) -> bool:
        """Return whether a file lies in this root, in a folder that the root leads to."""
        text, below = str(path), f"{self.path}/" if self.path != "/" else "/"
        if not text.startswith(below):
            return text == self.path
        # Texts: a list asks for each file, and a `Path` per question is slow.
        folders = tuple(text[len(below) :].split("/")[:-1])
        for at in range(len(folders)):  # noqa: SIM110
            if not self.leads_to(folders[: at + 1]):
                return False
        return True


class _Added(Struct, frozen=True, omit_defaults=True):
    path: str
    kind: str
    outputs: bool = True


class _File(Struct, frozen=True):
    version: int
    roots: list[_Added]


class Roots:
    """The roots of one profile. Changes are made by one thread at a time; any thread may read."""

    def __init__(
        self,
        layout: Layout,
        files: Files,
        report_trouble: Callable[[str], None],
        threads: ThreadPool,
    ) -> None:
        self.current: tuple[Root, ...] = ()
        """The roots; a change puts another tuple in its place."""
        self.linked: frozenset[Path] = frozenset()
        """Folders that count to a root because a symbolic link in the root leads there."""
        self._path = layout.roots
        self._unfinished = layout.pending
        self._own = os.path.realpath(layout.root)
        self._profile = (f"{self._own}/", f"{layout.root}/")
        self.files = guarded(files, self.place_of, threads)
        """The disk, on which looks outside the profile end; `threads` look."""
        self._report_trouble = report_trouble
        self._configured: tuple[Root, ...] = ()
        self._added: tuple[Root, ...] = ()
        self._no_outputs: frozenset[str] = frozenset()
        self._is_loaded = False
        try:
            self._load()
        except StorageError as error:
            report_trouble(f"{error}; the roots in it are not listed")
        self._put_together()

    def holds(self, path: Path) -> bool:
        """Return whether a file is one of a root's files, by its path without links."""
        return is_in(self.current, path) or (bool(self.linked) and path.parent in self.linked)

    def place_of(self, path: str) -> str:
        """Return the root or folder in which a path lies; "" for the profile and what leads there. Looks at no disk."""
        # Asked at each look, so by plain loops, and by texts.
        below = f"{path}/"
        if below.startswith(self._profile):
            return ""
        for own in self._profile:
            if own.startswith(below):
                return ""
        for root in self.current:
            if below.startswith(root.path) and below.startswith(f"{root.path}/"):
                return root.path
        return os.path.dirname(path)  # noqa: PTH120

    def agent_at(self, path: Path) -> bool:
        """Return whether a file lies in a root whose files another agent writes."""
        return is_in([root for root in self.current if root.is_agents], path)

    def whereabouts(self, known: Known) -> Whereabouts:
        """Return whether another agent writes a session's file, and the first root that has the file."""
        path = Path(known.path)
        roots = [root for root in self.current if root.holds(path)]
        first = roots[0].path if roots else None
        return Whereabouts(self.agent_at(path), first, outputs=all(root.outputs for root in roots))

    def find(self, path: str) -> Root | None:
        """Return the root at this path, in any spelling; None if there is no such root. Raises StorageError.

        The path that names the root is not looked at, so that a root that does not answer is found too.
        """
        roots = {root.path: root for root in self.current}
        if path in roots or "\0" in path:
            return roots.get(path)
        with telling("look at", Path(path)):
            return roots.get(self.files.real(path))

    def require(self, path: str) -> Root:
        """Return the root at this path. Raises InvalidParams, StorageError."""
        root = self.find(path)
        if root is None:
            there = ", ".join(one.path for one in self.current) or "none"
            text = f"the folder is no root: catalog/roots adds it; the roots are: {there}"
            raise InvalidParams(printable(text), path="root")
        return root

    def require_written(self, path: str) -> Root:
        """Return the root at this path, in which files may be made. Raises InvalidParams, StorageError."""
        root = self.require(path)
        if root.is_agents:
            text = f"the root has the files of {root.kind}, which are only read: leave root out"
            raise InvalidParams(text, path="root")
        return root

    def root_of_copy(
        self, source: OpenSession, named: str | None, dialect: str, *, stays: bool
    ) -> RootOfCopy | None:
        """Return the named root, else the one of the source, if a file of the dialect may be made there.

        `stays` tells that the copy is of the source's project. Raises InvalidParams, StorageError.
        """
        path = source.place or source.path
        own = None if path is None else self._root_of(path, dialect)
        root = own if named is None else self.require_written(named)
        if root is None:
            return None
        folder = path.parent if path is not None and stays and root == own else None
        if named is None and not (root.kind == dialect and self._may_write(folder or root.path)):
            return None
        return RootOfCopy(root.path, cast("FormatName", root.kind), folder)

    def _root_of(self, path: Path, kind: str) -> Root | None:
        """Return the first root that has a file, also behind a link in a root of this kind."""
        is_linked = path.parent in self.linked
        return next(
            (one for one in self.current if one.holds(path) or (is_linked and one.kind == kind)),
            None,
        )

    def _may_write(self, folder: Path | str) -> bool:
        """Return whether files can be made in a folder, which answers."""
        with suppress(OSError):
            return self.files.together(Path(folder), partial(_is_writable, folder))
        return False

    def configure(
        self, folders: Mapping[str, Sequence[str]], no_outputs: Sequence[str] = ()
    ) -> bool:
        """Set the roots of the configuration, by kind; return whether the roots changed.

        Of the roots `no_outputs` no outputs are searched, of added ones neither.
        """
        before, found = self.current, list[Root]()
        for kind, named in folders.items():
            for folder in named:
                root = Root(self._resolved(Path(folder).expanduser()), kind, configured=True)
                if self.is_own(root.path):
                    self._report_trouble(f"the root {root.path} is ignored: {OWN}")
                else:
                    found.append(root)
        self._configured = tuple(found)
        self._no_outputs = frozenset(self._resolved(Path(one).expanduser()) for one in no_outputs)
        self._put_together()
        return self.current != before

    def _resolved(self, folder: Path) -> str:
        """Return a path without links, as far as the folders on the way there answer.

        So a root has its name also while its disk does not answer, and keeps its rows.
        """
        real, names, links = Path("/"), list(folder.parts[:0:-1]), 0
        while names and links <= _LINKS_MAX:
            step = real / names.pop()
            try:
                link = self.files.together(step, partial(_link_at, step))
            except TimeoutError:
                real = step
                break
            except OSError:
                # No link, or nothing there.
                real = step
            else:
                links += 1
                names += link.parts[::-1]
        return os.path.normpath(real.joinpath(*names[::-1]))

    def is_own(self, path: str) -> bool:
        """Return whether a path without links lies in the profile itself."""
        return path == self._own or path.startswith(f"{self._own}/")

    def add(self, root: Root) -> None:
        """Add a root, or put it in its own place, durably. Raises StorageError; the roots are as they were then."""
        self._load()
        self._store([*(one for one in self._added if one.path != root.path), root])

    def asks_for_no_outputs(self, root: Root) -> bool:
        """Return whether the configuration says that no outputs of a root are searched."""
        return root.path in self._no_outputs

    def remove(self, root: Root) -> None:
        """Remove a root that was added, durably. Raises StorageError."""
        self._load()
        self._store(one for one in self._added if one.path != root.path)

    def _put_together(self) -> None:
        roots: dict[str, Root] = {}
        for root in (*self._configured, *self._added):
            roots.setdefault(root.path, root)
        self.current = tuple(
            msgspec.structs.replace(root, outputs=False) if self.asks_for_no_outputs(root) else root
            for root in roots.values()
        )

    def _load(self) -> None:
        """Read the file, unless that was done. Raises StorageError."""
        if not self._is_loaded:
            self._added = self._read()
            self._is_loaded = True

    def _read(self) -> tuple[Root, ...]:
        path = self._path
        with telling("read", path):
            if not self.files.exists(path):
                return ()
            fd = self.files.open_read(path)
            try:
                data = self.files.pread(fd, self.files.fstat(fd).st_size, 0)
            finally:
                close_quietly(self.files, fd)
        try:
            found = typed.decode(data, _File)
        except msgspec.DecodeError as error:
            raise _damaged(path, str(error)) from error
        if found.version != _VERSION:
            raise _damaged(path, f"version {found.version} is not known")
        return tuple(Root(one.path, one.kind, outputs=one.outputs) for one in found.roots)

    def _store(self, roots: Iterable[Root]) -> None:
        added = tuple(roots)
        kept = [_Added(one.path, one.kind, one.outputs) for one in added]
        text = msgspec.json.encode(_File(_VERSION, kept))
        with telling("write", self._path):
            # In a folder where a start removes what an earlier daemon was making.
            fd, unfinished = write_unfinished(self.files, self._unfinished, [text, b"\n"])
            close_quietly(self.files, fd)
            try:
                self.files.rename(unfinished, self._path)
            except OSError:
                with suppress(OSError):
                    self.files.unlink(unfinished)
                raise
            self._added = added
            self._put_together()
            self.files.fsync_folder(self._path.parent)


def _is_writable(folder: Path | str, _disk: Files) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


def _link_at(path: Path, _disk: Files) -> Path:
    return path.readlink()


def is_in(roots: Sequence[Root], path: Path) -> bool:
    """Return whether a file lies in one of these roots, or in a folder that a root leads to."""
    for root in roots:  # noqa: SIM110 - asked for each file of each look
        if root.holds(path):
            return True
    return False


def is_session_name(name: str) -> bool:
    """Return whether a file of this name may be a session of a dialect."""
    return name.endswith(_SUFFIX) and not name.startswith(".")


def _damaged(path: Path, why: str) -> StorageError:
    text = f"{printable(path)} is damaged ({why}): mend it, or move it away to begin without roots"
    return StorageError(text, errno="EINVAL", path=printable(path), retryable=False)
