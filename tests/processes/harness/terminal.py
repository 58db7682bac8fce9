"""The drawing of a command, or of a script of commands, on a terminal of a certain size."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from typing import Final

from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.shell import Shell

__all__ = ["on_a_terminal"]

COLOURS: Final = re.compile("\x1b\\[[0-9;]*m")


def on_a_terminal(
    shell: Shell,
    columns: int,
    *arguments: str,
    lines: int = 40,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = (),
) -> str:
    """Return what `sessiond` draws with these arguments, or another program, without colours.

    The program must succeed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = {**shell.environment, "TERM": "xterm", **(environment or {})}
    for name in ("COLUMNS", "LINES"):
        variables.pop(name, None)
    process = subprocess.Popen(
        [*(program or (shell.command,)), *arguments],
        cwd=shell.folder,
        env=variables,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    drawn = b""
    try:
        while piece := os.read(ours, 65536):
            drawn += piece
    except OSError:
        pass  # the end of a terminal that no process has open any more
    finally:
        os.close(ours)
    assert process.wait(PATIENCE_SECONDS) == 0, drawn
    return COLOURS.sub("", drawn.decode()).replace("\r\n", "\n")
