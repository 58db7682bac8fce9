"""A planted bug: what it breaks, who must catch it, and the lines that it changes.

    Breaks: 1, nothing acknowledged is lost
    Bug: a batch is answered although no sync has covered it
    Attackers: power-cuts
    --- a/sessiond/journal/writer.py
    +++ b/sessiond/journal/writer.py
    @@ -76,2 +76,2 @@
    -            if sync:
    +            if not sync:
                     self.out.sync()

Law: what a hunk finds must be in the file once, byte for byte, else the patch is stale. On
which line is no matter: those move with everything that is written above them.
"""

from __future__ import annotations

import builtins
import dis
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import CodeType
from typing import Final

from msgspec import Struct

__all__ = ["FOLDER", "Hunk", "Mutant", "StalePatch", "load", "load_all"]

FOLDER: Final = Path(__file__).parent
FIELDS: Final = ("Breaks", "Bug", "Attackers")
_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class StalePatch(Exception):
    """The patch does not fit the code, or says nothing; the words tell where and why."""


class Hunk(Struct, frozen=True):
    """Lines of a file that stand together, and what is there instead."""

    found: str
    instead: str


class Mutant(Struct, frozen=True):
    """A planted bug. `hunks` are keyed by the path of their file in the repository."""

    name: str
    breaks: str
    bug: str
    attackers: Sequence[str]
    hunks: Mapping[PurePosixPath, Sequence[Hunk]]

    def planted(self, tree: Path) -> dict[Path, str]:
        """Return the changed files of a tree with the bug in them. Raises StalePatch."""
        return {tree / path: self._changed(tree, path) for path in self.hunks}

    def _changed(self, tree: Path, path: PurePosixPath) -> str:
        try:
            text = (tree / path).read_text("utf-8")
        except FileNotFoundError:
            raise StalePatch(f"{self.name}: there is no {path} any more") from None
        for hunk in self.hunks[path]:
            lines = re.compile(f"^(?={re.escape(hunk.found)})", re.MULTILINE)
            places = [found.start() for found in lines.finditer(text)]
            if len(places) != 1:
                first = hunk.found.partition("\n")[0].strip()
                raise StalePatch(
                    f"{self.name}: in {path} the lines from {first!r} on are there {len(places)}"
                    " times; write the patch anew for what the code says now"
                )
            (at,) = places
            text = text[:at] + hunk.instead + text[at + len(hunk.found) :]
        if path.suffix == ".py":
            try:
                code = compile(text, str(path), "exec")
            except SyntaxError as error:
                raise StalePatch(f"{self.name}: {path} is no Python then: {error}") from error
            if unknown := _unknown_names(code):
                names = ", ".join(sorted(unknown))
                raise StalePatch(f"{self.name}: {path} defines no {names} any more")
        return text


def _unknown_names(module: CodeType) -> set[str]:
    """Return the global names that a module reads and that neither the module nor Python defines."""
    defined, read = {*dir(builtins), "__annotations__", "__file__", "__name__"}, set[str]()
    waiting = [module]
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
        for step in dis.get_instructions(code):
            if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
                defined.add(step.argval)
            elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"}:
                read.add(step.argval)
    return read - defined


def load_all(folder: Path = FOLDER) -> list[Mutant]:
    """Every planted bug, by name. Raises StalePatch."""
    return [load(path) for path in sorted(folder.glob("*.patch"))]


def load(path: Path) -> Mutant:
    """Load a patch. Raises StalePatch for a file that is no patch."""
    head, *files = re.split(r"^--- a/", path.read_text("utf-8"), flags=re.MULTILINE)
    fields = dict(re.findall(r"^(\w+): (.+)$", head, re.MULTILINE))
    if not files or tuple(fields) != FIELDS:
        raise StalePatch(f"{path.name}: it begins with {', '.join(FIELDS)}, then come files")
    return Mutant(
        name=path.stem,
        breaks=fields["Breaks"],
        bug=fields["Bug"],
        attackers=fields["Attackers"].split(", "),
        hunks=dict(_file(path.name, text) for text in files),
    )


def _file(name: str, text: str) -> tuple[PurePosixPath, list[Hunk]]:
    old, new, body = text.split("\n", 2)
    if new != f"+++ b/{old}" or not body.startswith("@@ "):
        raise StalePatch(f"{name}: a file is changed, not made, moved or removed")
    return PurePosixPath(old), list(_hunks(name, body))


def _hunks(name: str, body: str) -> Iterator[Hunk]:
    """Each hunk, as long as its own heading says."""
    for piece in re.split(r"^(?=@@ )", body, flags=re.MULTILINE)[1:]:
        heading, *lines = piece.removesuffix("\n").split("\n")
        sizes = _HUNK.match(heading)
        # An editor may have taken the blank of an empty line.
        marked = [line or " " for line in lines]
        before = [line[1:] for line in marked if line[0] in " -"]
        after = [line[1:] for line in marked if line[0] in " +"]
        told = sizes and tuple(int(size or "1") for size in sizes.groups())
        if told != (len(before), len(after)) or {line[0] for line in marked} - set(" -+"):
            raise StalePatch(f"{name}: {heading} does not say what follows it")
        if before == after or not before:
            raise StalePatch(f"{name}: {heading} changes nothing, or nothing that can be found")
        yield Hunk(*("".join(f"{line}\n" for line in part) for part in (before, after)))
