"""Planted bugs: what each one breaks, where it stands, the text that it changes, and the tests that find it.

    [answer-before-fsync]
    breaks = "1, nothing acknowledged is lost"
    bug = "a batch is answered although no sync has covered it"
    found_by = ["test_syscalls::test_a_batch_costs_one_write_and_one_sync"]

    [[answer-before-fsync.change]]
    place = "SessionWriter.write"
    old = '''
    if sync:
    '''
    new = '''
    if not sync:
    '''

Rule 1: a place is the qualified name of a function, a class or a constant. It survives every move: it has no folder
and no line. A name that stands in several modules has the bare name of its module before it (`hub: Session.open`);
`fixing:` is a whole module, and `call.ts` a whole file that is no Python.

Rule 2: the old text must stand in its place exactly once, whatever its indentation, else the bug is stale.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Final

import msgspec
from msgspec import Struct

__all__ = ["FOLDER", "SOURCES", "Bug", "Change", "Code", "StaleBug", "load_all"]

FOLDER: Final = Path(__file__).with_name("planted")
SOURCES: Final = ("sessiond", "clients")
_OTHER_LANGUAGES: Final = (".ts", ".lua", ".el")
_WORD: Final = re.compile(r"[^\W\d]\w*")
_DEFINES: Final = re.compile(r"^[ \t]*(?:(?:async )?def |class )?(\w+)[ ]*[(:=\[]", re.MULTILINE)
_NOT_OURS: Final = frozenset({"node_modules", "dist", "build"})

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Stretch = tuple[int, int]
"""The lines of a file from one to the other, counted from 0, the second one left out."""


class StaleBug(Exception):
    """The bug does not fit the code, or says nothing; the words tell where and why."""


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """Lines that stand together in a place, and what is there instead."""

    place: str
    old: str
    new: str = ""


class Bug(Struct, frozen=True, forbid_unknown_fields=True):
    """A planted bug."""

    name: str
    breaks: str
    bug: str
    change: Sequence[Change]
    found_by: Sequence[str] = ()
    """Tests that found the bug before, as `module::function`; `make mutants` tries them first."""
    only_search: str = ""
    """The reason why only tests of `make search` find the bug; empty if one of the gate does."""

    def planted(self, code: Code) -> dict[Path, str]:
        """Return the changed files with the bug in them. Raises StaleBug."""
        changed: dict[Path, str] = {}
        for change in self.change:
            path, text = self._changed(code, change, changed)
            changed[path] = text
        words = {word for change in self.change for word in _WORD.findall(change.new)}
        for path, text in changed.items():
            self._require_code(path, text, words)
        return changed

    def places(self, code: Code) -> Iterator[tuple[Path, Stretch]]:
        """Yield the file and the lines of each old text. Raises StaleBug."""
        for change in self.change:
            yield self._found(code, change, {})

    def _changed(self, code: Code, change: Change, changed: dict[Path, str]) -> tuple[Path, str]:
        path, (first, last) = self._found(code, change, changed)
        lines = changed.get(path, code.text(path)).split("\n")
        indent = _indent(lines[first:last])
        lines[first:last] = [f"{indent}{line}" if line else line for line in _lines(change.new)]
        return path, "\n".join(lines)

    def _found(self, code: Code, change: Change, changed: dict[Path, str]) -> tuple[Path, Stretch]:
        wanted = _lines(change.old)
        if not wanted or wanted == _lines(change.new):
            raise StaleBug(f"{self.name}: a change changes nothing, or nothing that can be found")
        found = [
            (path, stretch)
            for path, place in code.find(change.place, changed)
            for stretch in _matches(changed.get(path, code.text(path)).split("\n"), place, wanted)
        ]
        if len(found) != 1:
            raise StaleBug(
                f"{self.name}: in {change.place} the lines from {wanted[0]!r} on are there"
                f" {len(found)} times; write the change anew for what the code says now"
            )
        return found[0]

    def _require_code(self, path: Path, text: str, words: Set[str]) -> None:
        if path.suffix != ".py":
            return
        try:
            code = compile(text, str(path), "exec")
        except SyntaxError as error:
            raise StaleBug(f"{self.name}: {path.name} is no Python then: {error}") from error
        if unknown := _unknown_names(code, words):
            names = ", ".join(sorted(unknown))
            raise StaleBug(f"{self.name}: {path.name} defines no {names} any more")


class Code:
    """The files of the product in a tree, and where each name stands in them."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self._texts: dict[Path, str] = {}
        self._names: dict[Path, dict[str, list[Stretch]]] = {}

    def text(self, path: Path) -> str:
        """Return the text of a file."""
        if path not in self._texts:
            self._texts[path] = path.read_text("utf-8")
        return self._texts[path]

    @cached_property
    def files(self) -> Sequence[Path]:
        """Every file in which a bug can be planted."""
        return [
            path
            for folder in SOURCES
            for path in sorted((self.tree / folder).rglob("*.*"))
            if path.suffix in {".py", *_OTHER_LANGUAGES} and _NOT_OURS.isdisjoint(path.parts)
        ]

    @cached_property
    def _defining(self) -> Mapping[str, Sequence[Path]]:
        """The files of Python in which a line may define a name: a text is searched faster than parsed."""
        found = defaultdict[str, list[Path]](list)
        for path in self.files:
            if path.suffix == ".py":
                for name in set(_DEFINES.findall(self.text(path))):
                    found[name].append(path)
        return found

    def find(self, place: str, changed: dict[Path, str]) -> Iterator[tuple[Path, Stretch]]:
        """Yield the files that have a place, and its lines, as they are behind earlier changes."""
        module, colon, name = place.rpartition(":")
        name = name.strip()
        if (colon and not name) or place.endswith(_OTHER_LANGUAGES):
            for path in self.files:
                if (path.stem if path.suffix == ".py" else path.name) == (module or place):
                    yield path, (0, changed.get(path, self.text(path)).count("\n") + 1)
            return
        for path in self._defining.get(name.rpartition(".")[2], ()):
            if not module or path.stem == module:
                names = self._named(path) if path not in changed else stretches(changed[path])
                for stretch in names.get(name, ()):
                    yield path, stretch

    def _named(self, path: Path) -> dict[str, list[Stretch]]:
        if path not in self._names:
            self._names[path] = stretches(self.text(path))
        return self._names[path]


def stretches(text: str) -> dict[str, list[Stretch]]:
    """Return the lines of each function, class and constant of a module, by qualified name."""
    found: dict[str, list[Stretch]] = {}

    def walk(body: Sequence[ast.stmt], above: str) -> None:
        for node in body:
            for name in _names(node):
                first = min([node.lineno, *(one.lineno for one in _decorators(node))])
                assert node.end_lineno is not None
                found.setdefault(f"{above}{name}", []).append((first - 1, node.end_lineno))
            if isinstance(node, Definition):
                walk(node.body, f"{above}{node.name}.")
            else:
                for inner in ("body", "orelse"):
                    walk(getattr(node, inner, ()), above)

    walk(ast.parse(text).body, "")
    return found


def _names(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines."""
    if isinstance(node, Definition):
        return [node.name]
    targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", ())
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _decorators(node: ast.stmt) -> Sequence[ast.expr]:
    return node.decorator_list if isinstance(node, Definition) else ()


def _lines(text: str) -> list[str]:
    """Return the lines of a change, without the empty one that TOML begins with."""
    return text.removeprefix("\n").removesuffix("\n").split("\n") if text.strip() else []


def _indent(lines: Sequence[str]) -> str:
    """Return the blanks before the line that stands farthest to the left."""
    return min((re.match(" *", line)[0] for line in lines if line.strip()), default="")  # type: ignore[index]


def _matches(lines: Sequence[str], place: Stretch, wanted: Sequence[str]) -> Iterator[Stretch]:
    """Yield each stretch of a place that says what is wanted, whatever its indentation."""
    for first in range(place[0], place[1] - len(wanted) + 1):
        there = lines[first : first + len(wanted)]
        indent = _indent(there)
        if [line.removeprefix(indent) for line in there] == wanted:
            yield first, first + len(wanted)


def _unknown_names(module: CodeType, words: Set[str]) -> set[str]:
    """Return those of some words that are global names which a module reads, and nobody defines."""
    defined, read = {*dir(builtins), "__annotations__", "__file__", "__name__"}, set[str]()
    waiting = [module]
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
        if words.isdisjoint(code.co_names):
            continue
        for step in dis.get_instructions(code):
            if step.opname in {"STORE_NAME", "STORE_GLOBAL"}:
                defined.add(step.argval)
            elif step.opname in {"LOAD_NAME", "LOAD_GLOBAL"}:
                read.add(step.argval)
    return read & words - defined


def load_all(folder: Path = FOLDER) -> list[Bug]:
    """Every planted bug, by name. Raises StaleBug."""
    found: dict[str, Bug] = {}
    for path in sorted(folder.glob("*.toml")):
        for name, fields in tomllib.loads(path.read_text("utf-8")).items():
            if name in found:
                raise StaleBug(f"{path.name}: there are two bugs with the name {name}")
            try:
                found[name] = msgspec.convert({"name": name, **fields}, Bug)
            except (msgspec.ValidationError, TypeError) as error:
                raise StaleBug(f"{path.name}: {name}: {error}") from error
    return [found[name] for name in sorted(found)]
