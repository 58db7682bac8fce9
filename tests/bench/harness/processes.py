"""Processes that are measured: started on the server's core, ended by their own handle.

Law: every process started here is ended here, and its standard error goes to a
file of the work folder, whose last line names the reason when it does not start.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.link import Link
from tests.bench.harness.machine import on_core
from tests.kit.patience import soon_answered

__all__ = ["REPOSITORY", "Program", "Worker", "last_line", "listening", "started", "working"]

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[3]
STOP_SECONDS = 15.0


class Program(Struct, frozen=True, kw_only=True):
    """A program to start, and its core."""

    name: str
    command: Sequence[str]
    log: Path
    core: int | frozenset[int] | None
    environment: Mapping[str, str] = {}
    pipes: bool = False


@contextmanager
def started(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process on a core during the block."""
    with program.log.open("ab") as errors:
        with on_core(program.core):
            process = subprocess.Popen(
                program.command,
                cwd=REPOSITORY,
                env={**os.environ, **program.environment},
                stdin=subprocess.PIPE if program.pipes else subprocess.DEVNULL,
                stdout=subprocess.PIPE if program.pipes else errors,
                stderr=errors,
            )
        try:
            yield process
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def listening(program: Program, socket_path: Path) -> Iterator[Callable[[], Link]]:
    """Run a server on a Unix socket; yield a function that connects to it. Raises Missing."""
    with started(program) as process:
        try:
            soon_answered(
                lambda: Link(socket_path).close(),
                lambda error: isinstance(error, OSError) and process.poll() is None,
            )
        except OSError as error:
            reason = f"it does not start: {last_line(program.log)}"
            raise Missing(program.name, reason) from error
        yield lambda: Link(socket_path)


def last_line(log: Path) -> str:
    """Return the last line that a process logged."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    return lines[-1][:200] or "no word on its standard error"


class Worker:
    """A peer that works in its own process: one JSON object in, one out."""

    def __init__(self, program: Program, process: subprocess.Popen[bytes]) -> None:
        self.name = program.name
        self.pid = process.pid
        self._process = process
        self._log = program.log

    def ask(self, request: Mapping[str, Any], result: type[T]) -> T:
        """Have one task done. Raises BenchError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(msgspec.json.encode(request) + b"\n")
            stdin.flush()
            line = stdout.readline()
        except OSError:
            line = b""
        if not line:
            raise BenchError(f"{self.name} ended: {last_line(self._log)}")
        return msgspec.json.decode(line, type=result)


@contextmanager
def working(program: Program) -> Iterator[Worker]:
    """Run a worker during the block."""
    with started(program) as process:
        yield Worker(program, process)
