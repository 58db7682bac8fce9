"""System calls of a running daemon that fail: strace, attached for as long as a block lasts.

Law: every attachment is fresh, since strace counts the calls of each thread by itself, and
is over when its block is: what is called afterwards works again.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["attached", "failing"]


@contextmanager
def attached(strace: str, pid: int, calls: str, *options: str) -> Iterator[None]:
    """Trace these calls of a process, in all present and future threads, with options of strace.

    Raises PermissionError if tracing is not allowed.
    """
    command = [strace, "-f", "-p", str(pid), "-e", f"trace={calls}", "-e", "signal=none"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as tracer:
        try:
            assert tracer.stderr is not None
            said = ""
            while "attached" not in said:
                if not (line := tracer.stderr.readline()):
                    raise PermissionError(said)
                said += line
            yield
        finally:
            # Told to end it lets go of the process and leaves it as it was.
            tracer.send_signal(signal.SIGTERM)
            tracer.communicate(timeout=PATIENCE_SECONDS)


def failing(
    strace: str, pid: int, calls: str, error: str, *, path: Path | None = None
) -> AbstractContextManager[None]:
    """Let these calls (on this file) fail with this error, as long as the block lasts."""
    options = ["-e", f"inject={calls}:error={error}", "-o", "/dev/null"]
    if path is not None:
        options += ["-P", str(path)]
    return attached(strace, pid, calls, *options)
