"""Output of a command that the user configured for a secret.

Law: no shell is involved. The secret comes from the command's stdout; its stderr is discarded, because
it may show the secret. The command has a process group of its own, which is killed as a whole if the
command takes too long.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress

from sessiond.errors import SessiondError
from sessiond.limits import KEY_COMMAND_SECONDS


def output_of(command: Sequence[str], failed: Callable[[str], SessiondError]) -> bytes:
    """Return what a command writes. Blocking. Raises what `failed` makes of "was not started: …"."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the user configured this command
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise failed(f"was not started: {reason}") from None
    try:
        said, _ = process.communicate(timeout=KEY_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise failed(f"took longer than {KEY_COMMAND_SECONDS:g} seconds") from None
    finally:
        # A child of the command may keep running, or keep the output open.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode:
        raise failed(f"ended with status {process.returncode}")
    return said
