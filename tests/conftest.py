"""The surroundings of every test: both backends, an isolated home, no blocking call on the loop.

Law: this file knows no session. Fixtures that need the daemon's own classes are beside the tests
that use them.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import inspect
import os
import re
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from zlib import crc32

import pytest
from blockbuster import BlockBuster, BlockBusterFunction
from hypothesis import HealthCheck, Phase, settings
from trio._core import _run as trio_scheduler

import sessiond
import sessiond_client
from sessiond.limits import INLINE_READ_BYTES
from tests.kit.runs import Slice

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ["sessiond", "sessiond_client"]
OUR_FOLDERS = tuple(package.__path__[0] + os.sep for package in (sessiond, sessiond_client))
MACHINE_ENVIRONMENT = dict(os.environ)
IN_CI = os.environ.get("CI") == "true"
_DESCRIPTORS = "/proc/self/fd"
_TERM = re.compile(r"(not )?\w+")
_WRITTEN = ("conformance", "interop", "platform", "slow")
"""Marks that a test has only by the text of its own module."""
_MARKS_OF_ALL = re.compile(r"^pytestmark = .*", re.MULTILINE)

# Blocking calls that blockbuster's own list leaves out; the journal makes every one of them.
BLOCKING_TOO: tuple[tuple[ModuleType, str], ...] = (
    (os, "open"),
    (os, "fsync"),
    (os, "fdatasync"),
    (os, "pwrite"),
    (os, "ftruncate"),
    (os, "truncate"),
    (fcntl, "flock"),
    (fcntl, "lockf"),
)

# No deadline: two shared cores stall for longer than any honest one. `make test` is the first thing
# that a newcomer runs, so its examples are fixed; `make luck` and `make fuzz` draw new ones, and an
# example that luck finds is written down as an @example or as a test of its own.
settings.register_profile(
    "fixed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=True,
    database=None,
)
settings.register_profile("luck", settings.get_profile("fixed"), derandomize=False)
# tests/mutants asks whether there is a counterexample; nobody reads it, so none is made smaller.
settings.register_profile(
    "attack", settings.get_profile("fixed"), phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("fixed")

# A shell starts what it runs in the background deaf to SIGINT, which programs inherit. Those that
# are interrupted here are not to be.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both: trio shuffles the order in which tasks start."""
    backend: str = request.param
    return backend


def pytest_xdist_auto_num_workers() -> int:
    """Return one process more than there are cores: tests also wait, for disks and for each other."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: what is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take one of several slices of the tests."""
    parser.addoption("--slice", help="K/N: only the K-th of N slices of the test files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over a module that has no test for the marks of a run, so that no process imports the module."""
    terms = config.getoption("markexpr").split(" and ")
    if not collection_path.name.startswith("test_") or not all(map(_TERM.fullmatch, terms)):
        return None
    text = collection_path.read_text("utf-8")
    has_none = any(name in terms and f"mark.{name}" not in text for name in _WRITTEN)
    of_all = "".join(_MARKS_OF_ALL.findall(text))
    has_others = any(f"not {name}" in terms and f"mark.{name}" in of_all for name in _WRITTEN)
    return has_none or has_others or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to `make search` what is drawn, what needs the real clock, and trio's turn where it shows little.

    trio shuffles the order of tasks. Most tests show what a message, a file or a database holds, in which that
    order has no part.
    """
    for item in items:
        call = getattr(item, "callspec", None)
        on_trio = call is not None and call.params.get("anyio_backend") == "trio"
        if on_trio and not item.get_closest_marker("both_loops"):
            item.add_marker(pytest.mark.trio)
        if any(map(item.get_closest_marker, ("drawn", "real_clock", "trio"))):
            item.add_marker(pytest.mark.search)
    if part := config.getoption("slice"):
        files = Slice.parse(part).of(sorted({str(item.path) for item in items}))
        kept = [item for item in items if str(item.path) in files]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def _asks_for_luck() -> bool:
    return settings.default is not None and not settings.default.derandomize


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over ten thousand tests again and again, as the daemon does."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)


@pytest.fixture(autouse=True)
def _order_of_tasks(request: pytest.FixtureRequest) -> None:
    """Give trio's scheduler the dice of this test, unless the run asks for luck.

    trio reverses the order of its waiting tasks at random. With new dice in each run, a test would
    fail in one run of fifty, and the failure could not be repeated.
    """
    if not _asks_for_luck():
        trio_scheduler._r.seed(crc32(request.node.nodeid.encode()))


@pytest.fixture(scope="session", autouse=True)
def blockbuster() -> Iterator[BlockBuster]:
    """Fail a test in which code of ours blocks the event loop.

    blockbuster looks for a running asyncio loop, so the trio half of the tests passes by it; the
    same test on asyncio is the one that fails. Worker threads run no loop and may block.
    """
    guard = BlockBuster(PACKAGES)
    for module, name in BLOCKING_TOO:
        if not hasattr(module, name):
            continue  # macOS has no fdatasync
        guard.functions[f"{module.__name__}.{name}"] = BlockBusterFunction(
            module, name, scanned_modules=PACKAGES
        )
    # A read of the page cache is cheaper than a thread, so small ones are made in place.
    guard.functions["os.pread"] = BlockBusterFunction(
        os,
        "pread",
        scanned_modules=PACKAGES,
        can_block_predicate=lambda _fd, count, _offset: count <= INLINE_READ_BYTES,
    )
    for function in guard.functions.values():
        function.can_block_predicate = _or_of_a_test(function.can_block_predicate)
    guard.activate()
    yield guard
    guard.deactivate()


def _or_of_a_test(may_block: Callable[..., bool]) -> Callable[..., bool]:
    """Let calls of a test's own code block, too, without blockbuster's walk over the whole stack.

    The walk goes on to the first frame of pytest, and costs more than the calls of a set-up do.
    """

    def may(*arguments: Any, **options: Any) -> bool:
        return may_block(*arguments, **options) or not _is_call_of_ours()

    return may


def _is_call_of_ours() -> bool:
    """Return whether a frame between this one and the event loop is of the packages under test."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        if _is_ours(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return False


@cache
def _is_ours(file: str) -> bool:
    return any(file.startswith(folder) for folder in OUR_FOLDERS)


@pytest.fixture(autouse=True)
def _no_open_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves a connection of SQLite open.

    Python 3.13 and newer warn of such a connection, but only when the garbage is collected: in the
    middle of another test.
    """
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        made.append(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", noted)
    yield
    assert not any(map(_is_open, made)), "the test leaves a database open"


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018 - a connection that is closed raises
    except sqlite3.ProgrammingError:
        return False
    return True


@pytest.fixture(autouse=True)
def _no_open_watcher() -> Iterator[None]:
    """Fail a test that leaves descriptors of inotify open.

    Linux gives a user 128 of them. Behind some tens of such tests, a test of notices gets none.
    """
    before = _inotify_descriptors()
    yield
    assert _inotify_descriptors() <= before, "the test leaves a watcher open"


def _inotify_descriptors() -> int:
    """Return how many descriptors of inotify this process has."""
    found = 0
    # Without pathlib, which takes five times as long: this runs twice for each test.
    with suppress(FileNotFoundError):  # macOS has no such folder, and no inotify
        for descriptor in os.listdir(_DESCRIPTORS):  # noqa: PTH208
            # A descriptor of another thread may be closed by now.
            with suppress(OSError):
                name = os.readlink(f"{_DESCRIPTORS}/{descriptor}")  # noqa: PTH115
                found += name == "anon_inode:inotify"
    return found


@pytest.fixture(scope="session", autouse=True)
def _no_real_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hide the sessions, the socket and the settings of the user from all tests."""
    with pytest.MonkeyPatch.context() as patch:
        _point_home(patch, tmp_path_factory.mktemp("home"))
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test's own, also for the processes that it starts."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    _point_home(monkeypatch, path)
    return path


def _point_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("SESSIOND_", "XDG_"))]:
        if name != "SESSIOND_FIXTURES":
            patch.delenv(name)
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    patch.setenv("HOME", str(home))
    patch.setenv("XDG_RUNTIME_DIR", str(runtime))


@pytest.fixture(scope="session")
def machine_environment() -> Mapping[str, str]:
    """The environment before it was isolated: for installing things (npm), never for sessiond itself."""
    return MACHINE_ENVIRONMENT


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """A path short enough for a Unix socket: 107 bytes is all the kernel takes."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        yield Path(folder) / "s"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real recordings, vectors and samples that is not part of the repository."""
    path = Path(os.environ.get("SESSIOND_FIXTURES") or REPOSITORY / ".." / "shared").resolve()
    if not path.is_dir():
        _absent(f"no fixtures at {path}: set SESSIOND_FIXTURES")
    return path


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Return a function that finds a program (`program("socat")`) or skips the test without it."""

    def find(name: str) -> str:
        return shutil.which(name) or _absent(f"{name} is not installed")

    return find


@pytest.fixture(scope="session")
def absent() -> Callable[[str], NoReturn]:
    """Says that something the test needs is not there: a skip at home, a failure in CI."""
    return _absent


def _absent(reason: str) -> NoReturn:
    if IN_CI:
        pytest.fail(f"{reason} (in CI nothing may be missing)")
    pytest.skip(reason)
