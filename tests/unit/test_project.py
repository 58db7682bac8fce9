"""Checks of the project itself: the lock, the core's dependencies, the guards on the event loop."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from blockbuster import BlockingError

import sessiond

pytestmark = pytest.mark.both_loops

REPOSITORY = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
LOCK = tomllib.loads((REPOSITORY / "uv.lock").read_text("utf-8"))
PLACEHOLDER = "https://index.invalid/"


def normal(requirement: str) -> tuple[str, str]:
    """Return a requirement as (name with extras, specifier), as the lock spells them."""
    match = re.fullmatch(r"([\w.-]+(?:\[[\w,]+\])?)\s*(.*)", requirement)
    assert match is not None
    return match[1].lower(), match[2]


def locked(requirement: dict[str, Any]) -> tuple[str, str]:
    extras = ",".join(requirement.get("extras", ()))
    name = f"{requirement['name']}[{extras}]" if extras else requirement["name"]
    return name, requirement.get("specifier", "")


def test_the_lock_names_no_index_and_a_hash_for_every_file() -> None:
    for package in LOCK["package"]:
        if package["name"] == "sessiond":
            continue
        assert package["source"]["registry"].startswith(PLACEHOLDER), "run: make lock"
        files = [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        assert files
        for file in files:
            assert file["url"].startswith(PLACEHOLDER), "run: make lock"
            assert re.fullmatch(r"sha256:[0-9a-f]{64}", file["hash"])
            # Only some indexes tell sizes; the lock is the same with each.
            assert "size" not in file, "run: make lock"


def test_the_lock_was_made_from_this_pyproject() -> None:
    (package,) = [p for p in LOCK["package"] if p["name"] == "sessiond"]
    metadata = package["metadata"]

    extras = PYPROJECT["project"]["optional-dependencies"]
    asked = {normal(text) for text in PYPROJECT["project"]["dependencies"]}
    asked |= {normal(text) for texts in extras.values() for text in texts}
    assert {locked(item) for item in metadata["requires-dist"]} == asked, "run: make lock"
    assert metadata["provides-extras"] == sorted(extras), "run: make lock"

    groups = PYPROJECT["dependency-groups"]
    for name, members in metadata["requires-dev"].items():
        pinned = {locked(item) for item in members}
        assert pinned == set(map(normal, flatten(groups, name))), "run: make lock"
    assert set(metadata["requires-dev"]) == set(groups), "run: make lock"


def flatten(groups: dict[str, list[Any]], name: str) -> list[str]:
    texts: list[str] = []
    for member in groups[name]:
        texts += [member] if isinstance(member, str) else flatten(groups, member["include-group"])
    return texts


CORE_ALONE = """
import importlib, pkgutil, sys

allowed = {*sys.stdlib_module_names, "sessiond", "msgspec", "anyio", "idna", "sniffio", "typing_extensions"}

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed:
            raise ImportError(f"the core imported {name}")

sys.meta_path.insert(0, Nothing())
for name in ("model", "session", "dialects", "rpc", "journal"):
    package = importlib.import_module("sessiond." + name)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
"""


def test_the_core_imports_with_anyio_and_msgspec_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CORE_ALONE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


TESTS_WITHOUT_EXTRAS = """
import importlib, re, sys
from collections import deque
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from packaging.requirements import Requirement

def normal(name):
    return re.sub("[-_.]+", "-", name).lower()

brought, waiting = set(), deque(map(Requirement, sys.argv[1:]))
while waiting:
    one = waiting.popleft()
    for extra in ("", *one.extras):
        if (normal(one.name), extra) in brought:
            continue
        brought.add((normal(one.name), extra))
        try:
            below = map(Requirement, requires(one.name) or ())
            waiting += [each for each in below if not each.marker or each.marker.evaluate({"extra": extra})]
        except PackageNotFoundError:
            pass
names = {name for name, _ in brought}
hidden = {
    module for module, owners in packages_distributions().items()
    if not names & {"sessiond", *map(normal, owners)}
}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"only `make lint` installs {name}", name=name)

sys.meta_path.insert(0, Hidden())
failed = 0
for file in sorted(Path("tests").rglob("test_*.py")):
    try:
        importlib.import_module(".".join(file.with_suffix("").parts))
    except ModuleNotFoundError as error:
        print(f"{file}: {error}")
        failed += 1
sys.exit(failed > 0)
"""


def test_the_tests_are_collected_with_what_make_test_installs() -> None:
    asked = [
        *PYPROJECT["project"]["dependencies"],
        *flatten(PYPROJECT["dependency-groups"], "test"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", TESTS_WITHOUT_EXTRAS, *asked],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def of_ours(source: str) -> Callable[..., None]:
    """Return a function that seems to be defined in the package."""
    namespace: dict[str, Any] = {"os": os}
    exec(compile(source, f"{sessiond.__path__[0]}/made_up.py", "exec"), namespace)
    function: Callable[..., None] = namespace["work"]
    return function


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("call", ["os.fsync(fd)", "os.pread(fd, 1 << 30, 0)", "os.open('x', 0)"])
async def test_code_of_ours_that_blocks_the_loop_fails_its_test(call: str, tmp_path: Path) -> None:
    work = of_ours(f"def work(fd): {call}")
    with (tmp_path / "file").open("wb") as file, pytest.raises(BlockingError):
        work(file.fileno())


async def test_code_of_ours_may_block_in_a_worker_thread(tmp_path: Path) -> None:
    work = of_ours("def work(fd): os.fsync(fd)")
    with (tmp_path / "file").open("wb") as file:
        await anyio.to_thread.run_sync(work, file.fileno())


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a function runs: its parts without the functions that the function defines."""
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield part
            yield from parts(part)


def loops_that_hold_the_event_loop(source: str) -> list[int]:
    """Return the lines of the loops of coroutines that wait without `await`."""
    if "while " not in source or "async def " not in source:  # reading all tests takes seconds
        return []
    return [
        loop.lineno
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.AsyncFunctionDef)
        for loop in parts(function)
        if isinstance(loop, ast.While)
        and not any(
            isinstance(part, ast.Await | ast.AsyncFor | ast.AsyncWith) for part in parts(loop)
        )
    ]


def test_no_coroutine_waits_in_a_loop_that_holds_the_event_loop() -> None:
    """Find loops that wait for what the event loop itself would have to do, and so wait for good."""
    found = {
        str(path.relative_to(REPOSITORY)): lines
        for path in sorted((REPOSITORY / "tests").rglob("*.py"))
        if (lines := loops_that_hold_the_event_loop(path.read_text("utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("while site.listeners < 2: pass", [1]),
        ("while not await is_heard(): pass", []),
        ("while True:\n  async with one: break", []),
        ("def blocks():\n  while True: pass", []),
        ("while True:\n  async def waits(): await one", [1]),
    ],
)
def test_a_loop_that_holds_the_event_loop_is_found(body: str, lines: list[int]) -> None:
    source = "async def waits():\n" + "\n".join(f" {line}" for line in body.splitlines())
    assert loops_that_hold_the_event_loop(source) == [line + 1 for line in lines]


def test_no_test_sees_a_real_home(machine_environment: Mapping[str, str]) -> None:
    assert str(Path.home()) != machine_environment.get("HOME")
    assert Path(os.environ["XDG_RUNTIME_DIR"]).parent == Path.home()
    assert not {name for name in os.environ if name.startswith("SESSIOND_")} - {"SESSIOND_FIXTURES"}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("clients/python/sessiond_client/__init__.py", r'^__version__ = "(.*)"'),
        ("clients/python/sessiond_client/generated/facts.py", r'^VERSION: Final = "(.*)"'),
        ("clients/typescript/src/generated/facts.ts", r'^export const VERSION = "(.*)"'),
        ("clients/typescript/package.json", r'^  "version": "(.*)"'),
        ("clients/typescript/package-lock.json", r'^  "version": "(.*)"'),
        ("clients/vscode/package.json", r'^  "version": "(.*)"'),
        ("clients/vscode/package-lock.json", r'^  "version": "(.*)"'),
        ("clients/pi/package.json", r'^  "version": "(.*)"'),
        ("clients/pi/package.json", r'"sessiond-client": "(.*)"'),
        ("clients/pi/README.md", r"sessiond-client-(.*)\.tgz"),
        ("clients/typescript/README.md", r"sessiond-client-(.*)\.tgz"),
        ("clients/stubs/stub.py", r'^VERSION = "(.*)"'),
        ("clients/stubs/stub.mjs", r'^const VERSION = "(.*)"'),
        ("clients/stubs/stub.sh", r"^version=(\S+) "),
        ("clients/neovim/lua/sessiond/client.lua", r'^local VERSION = "(.*)"'),
        ("clients/emacs/sessiond.el", r"^;; Version: (.*)"),
        ("clients/emacs/sessiond-client.el", r'defconst sessiond-client-version "(.*)"'),
    ],
)
def test_daemon_and_clients_have_one_version(name: str, pattern: str) -> None:
    """A client compares its own with the daemon's: sessiond/__init__.py says it first."""
    text = (REPOSITORY / name).read_text("utf-8")
    assert re.findall(pattern, text, re.MULTILINE) == [sessiond.__version__], name
