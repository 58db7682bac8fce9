"""The roots, for people: what is on this machine, what is a root, add and remove.

Law: a list looks at names and sizes when it is called, and opens no session. A root that is removed
leaves catalog and search; its files stay as they are.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Final

import anyio
from anyio import CancelScope, to_thread
from msgspec import Struct
from msgspec.structs import replace

from sessiond.dialects.agents.places import FOLDERS_OF_AGENTS
from sessiond.errors import InvalidParams, SessiondError
from sessiond.journal.disk.failures import telling
from sessiond.journal.disk.files import Files, FileStat
from sessiond.limits import ROOT_FIGURES_SECONDS
from sessiond.model.formats import ROOT_KINDS
from sessiond.service.files.profile import Profile
from sessiond.service.files.roots.roots import OWN, Root, is_in
from sessiond.service.listing.root_rooms import IndexedTexts, RootRooms, indexed_texts
from sessiond.service.store.roots import RootInfo, ShownAt
from sessiond.visible import printable

_FILES_TRIED: Final = 20


class _Figures(Struct, frozen=True):
    """The figures of a folder, and the reason why it cannot be read or is shown as it was; as in `RootInfo`."""

    sessions: int | None
    bytes: int
    reason: str | None


class FolderRoots:
    """The roots of one profile, one change at a time."""

    def __init__(self, profile: Profile, on_change: Callable[[ShownAt], Awaitable[None]]) -> None:
        self._profile = profile
        self._roots = profile.roots
        self._on_change = on_change
        self._turn = anyio.Lock()
        # Figures of roots, each with the moment of its count, by path.
        self._counted: dict[str, tuple[float, _Figures]] = {}

    async def look(self) -> list[RootInfo]:
        """Return the roots, and the folders of known programs that are none."""
        return await to_thread.run_sync(self._look, 0.0)

    async def add(self, path: str, kind: str | None, *, outputs: bool | None) -> list[RootInfo]:
        """Add a folder, or change whether its `outputs` are searched; return what `look` returns.

        Raises InvalidParams, StorageError.
        """
        return await self._change(lambda: self._add(path, kind, outputs=outputs))

    async def remove(self, path: str) -> list[RootInfo]:
        """Remove a root; return what `look` returns. Raises InvalidParams, StorageError."""
        return await self._change(lambda: self._remove(path))

    async def configure(
        self, folders: Mapping[str, Sequence[str]], no_outputs: Sequence[str]
    ) -> None:
        """Take over the roots of another configuration, by kind, and those of which no outputs are searched."""
        await self._change(lambda: self._roots.configure(folders, no_outputs))

    async def _change(self, change: Callable[[], object]) -> list[RootInfo]:
        """Change the roots in a worker thread, to the end even if the caller is cancelled."""
        async with self._turn:
            before = self._roots.current

            def shown(path: Path) -> bool | None:
                return self._roots.holds(path) or (False if is_in(before, path) else None)

            with CancelScope(shield=True):
                await to_thread.run_sync(change)
                await self._on_change(shown)
        # Who adds root after root does not wait for the files of all roots each time.
        return await to_thread.run_sync(self._look, ROOT_FIGURES_SECONDS)

    # -- changes -----------------------------------------------------------------------

    def _add(self, path: str, kind: str | None, *, outputs: bool | None) -> None:
        with telling("look at", Path(path)):
            real = self._profile.files.real(path)
        if printable(real) != real:
            raise InvalidParams("the path is not UTF-8: rename the folder", path="path")
        if self._roots.is_own(real):
            raise InvalidParams(OWN, path="path")
        if kind is not None and kind not in ROOT_KINDS:
            text = f"no kind of this name is known; the kinds are {', '.join(ROOT_KINDS)}"
            raise InvalidParams(text, path="kind")
        found = self._roots.find(real)
        if found is not None:
            if kind not in {None, found.kind}:
                text = f"the folder is a root of kind {found.kind} already: remove that root first"
                raise InvalidParams(text, path="kind")
            if outputs not in {None, found.outputs}:
                self._change_outputs(found)
            return
        try:
            self._profile.paths.listdir(Path(real))
        except OSError as error:
            text = f"{real} cannot be listed: {error.strerror}{self._meant(real)}"
            raise InvalidParams(text, path="path") from error
        self._roots.add(Root(real, kind or self._kind_of(real), outputs=outputs is not False))
        self._counted.pop(real, None)

    def _change_outputs(self, root: Root) -> None:
        if root.configured or self._roots.asks_for_no_outputs(root):
            text = (
                "the configuration says whether outputs of this root are searched: change"
                " search.no_outputs there, then let the daemon read the configuration again (SIGHUP,"
                " or a restart)"
            )
            raise InvalidParams(text, path="outputs")
        self._roots.add(replace(root, outputs=not root.outputs))

    def _kind_of(self, path: str) -> str:
        """Return the dialect of a folder's files: by the folder, else by the newest file that tells."""
        kind = self._told_kind(path)
        if kind is not None:
            return kind
        raise InvalidParams(
            f"no file in {path} tells its program{self._meant(path)}; if it is the right folder,"
            f" name it with kind ({', '.join(ROOT_KINDS)})",
            path="kind",
        )

    def _meant(self, path: str) -> str:
        """Return the advice to add the folder near a path that has sessions; no words for none."""
        near = [f"{path}/{below}" for below in FOLDERS_OF_AGENTS]
        near += [home for _, home in self._homes() if home == str(Path(path).parent)]
        for folder in near:
            with suppress(OSError):
                self._profile.paths.listdir(Path(folder))
                if (kind := self._told_kind(folder)) is not None:
                    return f": add {folder}, which has sessions of {kind}"
        return ""

    def _told_kind(self, path: str) -> str | None:
        for kind, home in self._homes():
            if home == path:
                return kind
        kinds = [Root(path, kind) for kind in ROOT_KINDS]
        # A path that is no root yet may have links.
        found = [each for one in kinds for each in self._files_in(one, path, is_linked=True)]
        files = sorted({(one.st_mtime_ns, file) for file, one in found})
        for _, file in files[: -_FILES_TRIED - 1 : -1]:
            with suppress(SessiondError):
                return self._profile.rows.kind(Path(file))
        return None

    def _remove(self, path: str) -> None:
        root = self._roots.find(path)
        if root is None:
            text = "the folder is no root: catalog/roots lists the roots"
            raise InvalidParams(text, path="path")
        if root.configured:
            text = (
                f"the root stands in the configuration: take it out of roots.{root.kind} there,"
                " then let the daemon read the configuration again (SIGHUP, or a restart)"
            )
            raise InvalidParams(text, path="path")
        self._roots.remove(root)
        self._counted.pop(root.path, None)

    # -- the look ------------------------------------------------------------------------

    def _look(self, seconds: float) -> list[RootInfo]:
        """Return what there is; figures of a root that were counted less than so many seconds ago are not counted again."""
        roots = self._roots.current
        texts = self._indexed()
        found = [
            _info(root, self._recent(root, seconds), texts.get(root.path), added=True)
            for root in roots
        ]
        there = {root.path for root in roots}
        for kind, home in self._homes():
            if home not in there:
                there.add(home)
                root = Root(home, kind)
                info = _info(root, self._figures(root, added=False), None, added=False)
                found += [info] if info.reason is None else []
        return found

    def _indexed(self) -> Mapping[str, IndexedTexts]:
        rooms = RootRooms(self._roots.whereabouts)
        return indexed_texts(self._profile.texts, self._profile.catalog, rooms)

    def _homes(self) -> Iterator[tuple[str, str]]:
        """Yield the folders in which programs keep their files, each with the program's dialect."""
        for kind, home in self._profile.environment.homes():
            before, star, behind = home.folder.partition("/*/")
            with suppress(OSError):
                names = sorted(self._profile.files.listdir(Path(before))) if star else [""]
                for name in names:
                    folder = f"{before}/{name}/{behind}" if star else home.folder
                    real = self._profile.files.real(folder)
                    if self._profile.files.exists(real) and printable(real) == real:
                        yield kind, real

    def _recent(self, root: Root, seconds: float) -> _Figures:
        now = self._profile.environment.monotonic()
        at, figures = self._counted.get(root.path, (-inf, None))
        if figures is None or now - at >= seconds:
            figures = self._figures(root, added=True)
            self._counted[root.path] = now, figures
        return figures

    def _figures(self, root: Root, *, added: bool) -> _Figures:
        def walk() -> list[int]:
            return [one.st_size for _, one in self._files_in(root, root.path, is_root=added)]

        count = size = 0
        has_unread = False
        reason: str | None = None
        try:
            # The folders of a root are one place, so that one thread looks at them all.
            sizes = self._profile.files.visit(Path(root.path), walk) if added else walk()
            count, size = len(sizes), sum(sizes)
            databases = (
                self._profile.paths.database_bytes(Path(root.path)) if root.has_databases else 0
            )
            size += databases
            has_unread = databases > 0 and not added
            reason = self._profile.paths.why_old(Path(root.path)) if added else None
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        return _Figures(None if has_unread else count, size, reason)

    def _files_in(
        self,
        root: Root,
        folder: str,
        parts: tuple[str, ...] = (),
        *,
        is_root: bool = True,
        is_linked: bool = False,
    ) -> Iterator[tuple[str, FileStat]]:
        """Yield the session files of a root by their names, from the folder to which `parts` lead.

        `is_linked` tells that links lead there. Databases are opened in a root alone. Raises OSError for the
        folder itself; a folder below that cannot be read has no files.
        """
        looks, here = self._profile.paths if is_root else self._profile.files, Path(folder)
        below: list[str] = []
        for name, found in looks.stats(here).items():
            inner = (*parts, name)
            if stat.S_ISDIR(found.st_mode):
                below += [name] if root.leads_to(inner) else []
            elif root.has_session(inner):
                yield f"{folder}/{name}", found
        links = self._links_in(here, below)
        for name in below:
            path, leads = f"{folder}/{name}", is_linked or name in links
            with suppress(OSError):
                # The path of a root has no links.
                if not self._roots.is_own(self._profile.files.real(path) if leads else path):
                    inner = (*parts, name)
                    yield from self._files_in(root, path, inner, is_root=is_root, is_linked=leads)

    def _links_in(self, folder: Path, names: Sequence[str]) -> set[str]:
        """Return which of the names in a folder are symbolic links. Raises TimeoutError."""

        def links(disk: Files) -> set[str]:
            found = set[str]()
            for name in names:
                with suppress(FileNotFoundError):
                    if stat.S_ISLNK(disk.lstat(folder / name).st_mode):
                        found.add(name)
            return found

        return self._profile.files.together(folder, links) if names else set()


def _info(root: Root, figures: _Figures, texts: IndexedTexts | None, *, added: bool) -> RootInfo:
    return RootInfo(
        path=printable(root.path),
        kind=root.kind,
        sessions=figures.sessions,
        bytes=figures.bytes,
        added=added,
        configured=root.configured,
        reason=figures.reason,
        indexed_chars=0 if texts is None else texts.chars,
        index_full=texts is not None and texts.is_full,
        outputs=root.outputs,
    )
