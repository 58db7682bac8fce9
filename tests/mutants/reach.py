"""Tests that reach the place of each planted bug: found by one run of the tests on a copy with marks in it.

Law: a mark stands before the statement that a bug changes, so a test that reaches it could notice the bug. For a
constant, marks stand in every function that names the constant. What a mark notes are the bug and the test in
whose process, or in whose child, the statement was executed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from tests.mutants.bugs import Bug, Code, Definition, Stretch
from tests.mutants.copies import REPOSITORY, Copy, copy

__all__ = ["MARKER", "functions_of", "reached_by", "tree_name"]

MARKER: Final = '''\
"""Notes which test executes a marked statement."""
import os
import posix

_seen = set()
_path = os.environ.get("SESSIOND_REACH")
# A test that looks at the descriptors of its process must not find one more: each note opens the file anew.
_open, _write, _close = posix.open, posix.write, posix.close


def reached(bug):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    if _path is None or (bug, test) in _seen:
        return
    _seen.add((bug, test))
    out = _open(_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    _write(out, f"{bug}\\t{test}\\n".encode())
    _close(out)
'''
_PYTEST: Final = ("-p", "no:randomly", "-p", "no:cacheprovider", "-n", "3", "--dist", "worksteal")
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")


def reached_by(bugs: Sequence[Bug], marks: str) -> Mapping[str, Sequence[str]]:
    """Return the tests with these marks that reach each bug, those first that reach the fewest bugs.

    Takes one run of all these tests; what was found is kept for the tree as it is.
    """
    where = REPOSITORY / ".venv" / f"reach-{tree_name()}-{crc32(marks.encode()):x}.json"
    if where.exists():
        return msgspec.json.decode(where.read_bytes(), type=dict[str, list[str]])
    with copy() as marked:
        found = marked.folder / "reached"
        _mark(marked, bugs)
        subprocess.run(
            [marked.python, "-m", "pytest", "-q", *_PYTEST, "-m", marks],
            cwd=marked.tree,
            env={**marked.environment, "SESSIOND_REACH": str(found)},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        lines = found.read_text("utf-8").splitlines()
    tests = defaultdict[str, set[str]](set)
    for line in lines:
        bug, _, test = line.partition("\t")
        if test:
            tests[bug].add(short(test))
    counts = Counter(test for each in tests.values() for test in each)
    reach = {
        bug: sorted(each, key=lambda test: (counts[test], test)) for bug, each in tests.items()
    }
    where.write_bytes(msgspec.json.encode(reach))
    return reach


def short(node_id: str) -> str:
    """Return `module::function` of a test, without its parameters.

    The folder comes before, where the module has the test from another module of its name.
    """
    path, _, function = node_id.partition("::")
    test = f"{Path(path).stem}::{function.partition('[')[0]}"
    is_clear = any(found.startswith(f"{path}::") for found in functions_of([test], REPOSITORY))
    return test if is_clear else f"{Path(path).parent.name}/{test}"


def functions_of(tests: Sequence[str], tree: Path) -> list[str]:
    """Return tests as pytest takes them; a test that several folders have is each of them."""
    found = []
    for test in tests:
        folder, slash, name = test.rpartition("/")
        module, _, function = name.partition("::")
        first, _, own = function.partition("::")
        names = re.compile(rf"def {re.escape(own or first)}\(|\b{re.escape(first)}\b")
        found += [
            f"{path}::{function}"
            for path, text in _modules(tree).get(module, ())
            if (path.parent.name == folder if slash else names.search(text))
        ]
    return found


@cache
def _modules(tree: Path) -> Mapping[str, Sequence[tuple[Path, str]]]:
    """Return the modules of tests by their names: each one's path, and its text."""
    found = defaultdict[str, list[tuple[Path, str]]](list)
    for path in sorted((tree / "tests").rglob("test_*.py")):
        found[path.stem].append((path.relative_to(tree), path.read_text("utf-8")))
    return found


def tree_name() -> str:
    """Return a name for the files as they are."""
    for words in (["git", "stash", "create"], ["git", "rev-parse", "HEAD"]):
        if commit := _said(words):
            return _said(["git", "rev-parse", f"{commit}^{{tree}}"])[:12]
    return f"unknown-{os.getpid()}"


def _said(words: Sequence[str]) -> str:
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _mark(marked: Copy, bugs: Sequence[Bug]) -> None:
    """Write marks into a copy."""
    code = Code(marked.tree)
    marks = defaultdict[Path, list[tuple[int, str]]](list)
    for bug in bugs:
        for path, stretch in bug.places(code):
            if path.suffix == ".py":
                for where, line in _reading(code, path, stretch):
                    marks[where].append((line, bug.name))
    for path, lines in marks.items():
        tree = ast.parse(code.text(path))
        # From the last to the first: a mark moves what stands behind it in its body, not before it.
        for line, name in sorted(lines, reverse=True):
            _insert(tree, line, name)
        marked.write(path, ast.unparse(ast.fix_missing_locations(tree)))
    (marked.packages / "sessiond_reach.py").write_text(MARKER)


def _reading(code: Code, path: Path, stretch: Stretch) -> Iterator[tuple[Path, int]]:
    """Yield the places to mark: the changed line in a function, or each function that names the constant."""
    line = stretch[0] + 1
    module = ast.parse(code.text(path))
    owners = [
        node
        for node in ast.walk(module)
        if isinstance(node, Definition) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if any(not isinstance(node, ast.ClassDef) for node in owners):
        yield path, line
        return
    names = {node.name for node in owners} or {
        target.id
        for node in module.body
        if node.lineno <= line <= (node.end_lineno or 0)
        for target in ast.walk(node)
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
    }
    for other in code.files:
        text = code.text(other)
        if other.suffix != ".py" or not any(name in text for name in names):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not names.isdisjoint(
                _named_in(node)
            ):
                yield other, node.body[-1].lineno


def _named_in(node: ast.AST) -> set[str]:
    return {
        one.id if isinstance(one, ast.Name) else one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Attribute)
    }


def _insert(module: ast.Module, line: int, name: str) -> None:
    """Put a mark before the innermost statement of a function that has a line."""
    body: list[ast.stmt] = module.body
    at, inside = 0, False
    here: ast.AST = module
    while True:
        deeper = _inner(here, line)
        if deeper is None:
            break
        where, number = deeper
        here = where[number]
        if isinstance(here, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = True
            # The signature has no place for a mark: the first statement has.
            body, at = here.body, 0
        elif inside and isinstance(here, ast.stmt):
            body, at = where, number  # type: ignore[assignment]
    first = body[at]
    if (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)) or isinstance(
        first, ast.Nonlocal | ast.Global
    ):
        at += 1
    body.insert(at, ast.parse(f"__import__('sessiond_reach').reached({name!r})").body[0])


def _inner(node: ast.AST, line: int) -> tuple[list[ast.AST], int] | None:
    """Return the body below a node, and the number in it, of what has a line."""
    for field in _BODIES:
        children: list[ast.AST] = getattr(node, field, [])
        for number, child in enumerate(children):
            if _has(child, line):
                return children, number
    return None


def _has(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno <= line <= (node.body[-1].end_lineno or 0)
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(one.lineno for one in decorators)])  # type: ignore[attr-defined]
    return bool(first <= line <= node.end_lineno)  # type: ignore[attr-defined]
