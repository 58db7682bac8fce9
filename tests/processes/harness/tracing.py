"""A daemon under strace, and the trace of its calls."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.processes.harness.daemon import SESSIOND, Daemon

__all__ = ["TracedDaemon", "tracing"]

TracedDaemon = tuple[Daemon, Path]
"""A daemon, and the file with the trace of its threads' calls."""


def tracing(calls: str, *, shown_bytes: int) -> Callable[..., Iterator[TracedDaemon]]:
    """Return the fixture of a daemon whose calls of these names are traced.

    `shown_bytes` is how much of the bytes that are read and written the trace shows.
    """

    @pytest.fixture
    def traced(
        socket_path: Path,
        home: Path,
        program: Callable[[str], str],
        absent: Callable[[str], NoReturn],
    ) -> Iterator[TracedDaemon]:
        strace = program("strace")
        trace = home / "trace"
        probe = subprocess.run([strace, "-f", "true"], capture_output=True, check=False)
        if probe.returncode:
            absent("this machine lets nobody trace")
        shown = ["-s", str(shown_bytes), "-e", f"trace={calls}"]
        command = [strace, "-f", "-y", *shown, "-o", str(trace), SESSIOND]
        daemon = Daemon(socket_path, home / "data", program=command)
        daemon.start()
        yield daemon, trace
        daemon.discard()

    return traced
