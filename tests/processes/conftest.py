"""The real daemon for the tests of this folder."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, Protocol

import pytest

from tests.kit.forked import commands_of_forks
from tests.processes.harness.child import Child, Start
from tests.processes.harness.daemon import SESSIOND, Daemon, running
from tests.processes.harness.faults import failing
from tests.processes.harness.machine import Machine
from tests.processes.harness.shell import Shell, user_shell

# A stage of a walk that fails says what it compared, as a test does.
pytest.register_assert_rewrite("tests.processes.harness.walk", "tests.processes.usages")


@pytest.fixture
def daemon(socket_path: Path, home: Path) -> Iterator[Daemon]:
    """Run a daemon; require at the end that it met no bug and exits with 0."""
    with running(Daemon(socket_path, home / "data")) as daemon:
        yield daemon


@pytest.fixture
def machine(socket_path: Path, home: Path, sessiond_program: str) -> Iterator[Machine]:
    """Make a machine on which no daemon runs, nor at its end; its runtime folder is short enough for sockets."""
    made = Machine(home, socket_path.parent, sessiond_program)
    try:
        yield made
        for profile in made.served():
            named = ("--profile", profile["name"], "--socket", profile["socket"])
            stopped = made.run("stop", *named)
            assert stopped.returncode == 0, stopped
        assert '"bug"' not in made.log
    finally:
        for profile in made.served():
            os.kill(profile["pid"], signal.SIGKILL)
    assert made.served() == []


@pytest.fixture(scope="session", autouse=True)
def sessiond_program() -> Iterator[str]:
    """Yield the program that stands for `sessiond`: forks, or with SESSIOND_COMMANDS=whole the program itself."""
    if os.environ.get("SESSIOND_COMMANDS") == "whole":
        yield SESSIOND
        return
    with TemporaryDirectory(prefix="sd-") as folder, commands_of_forks(Path(folder)) as program:
        Daemon.forks = program
        yield program
        Daemon.forks = None


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, sessiond_program: str) -> Iterator[Shell]:
    """Make a user's shell whose daemon keeps running from test to test."""
    with user_shell(tmp_path_factory.mktemp("home"), sessiond_program) as shell:
        yield shell


@pytest.fixture
def shell(lasting: Shell) -> Shell:
    """Return the shell in the state in which every example starts."""
    lasting.begin()
    return lasting


@pytest.fixture
def started() -> Iterator[Start]:
    """Yield a function that starts programs; end each at the latest here."""
    with ExitStack() as at_end:

        def start(*command: object, **options: Any) -> Child:
            child = at_end.enter_context(Child(*command, **options))
            at_end.callback(child.kill)
            return child

        yield start


@pytest.fixture(scope="session")
def strace(program: Callable[[str], str], absent: Callable[[str], NoReturn]) -> str:
    """Return strace, on a machine that lets it make calls of another process fail."""
    strace = program("strace")
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        try:
            with failing(strace, sleeping.pid, "fdatasync", "EIO"):
                return strace
        except PermissionError:
            absent("this machine lets nobody trace")
        finally:
            sleeping.kill()


class Mount(Protocol):
    """Mounts a file system in memory on a folder; again with `remount` among its options."""

    def __call__(self, folder: Path, options: str) -> Path: ...


@pytest.fixture
def mounted(program: Callable[[str], str], absent: Callable[[str], NoReturn]) -> Iterator[Mount]:
    """File systems for one test; CI must be able to mount them, elsewhere only root is."""
    mount, umount = program("mount"), program("umount")
    with ExitStack() as at_end:

        def tmpfs(folder: Path, options: str) -> Path:
            folder.mkdir(exist_ok=True)
            options = f"{options},mode=0700,uid={os.getuid()}"
            command = [mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                absent(f"cannot mount: {done.stderr}")
            if "remount" not in options.split(","):
                unmount = [umount, "--lazy", str(folder)]
                at_end.callback(subprocess.run, unmount, check=True)
            return folder

        yield tmpfs
