"""Configured source of the keys of the secrets: a command, or a file in the configuration folder.

Law: no shell is involved. The key comes from the command's stdout; its stderr is discarded, because
it may show the key. The command has a process group of its own, which is killed as a whole if the
command takes too long.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sessiond.config.config_file import default_file
from sessiond.config.configuration import Secrets
from sessiond.errors import SecretKeyUnavailable
from sessiond.journal.profile.layout import Layout, data_home
from sessiond.limits import KEY_COMMAND_SECONDS
from sessiond.model.digests import sha256_hex
from sessiond.state.keys import KeySettings

__all__ = ["key_settings", "run_key_command"]

_HOME_DIGITS: Final = 8


def key_settings(settings: Secrets, layout: Layout) -> KeySettings:
    """Return the source of the keys of a profile."""
    if settings.key_file is not None:
        file = Path(settings.key_file).expanduser()
        return KeySettings(file, is_shared=True, command=settings.key_command, run=run_key_command)
    name = layout.profile
    if layout.home != data_home({}):
        # Profiles of another home have keys of their own.
        name += f"-{sha256_hex(os.fsencode(layout.home.absolute()))[:_HOME_DIGITS]}"
    file = default_file(os.environ).with_name("keys") / f"{name}.key"
    return KeySettings(file, command=settings.key_command, run=run_key_command)


def run_key_command(command: Sequence[str]) -> bytes:
    """Return what a command writes. Blocking. Raises SecretKeyUnavailable."""
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
        raise _failed(f"was not started: {reason}") from None
    try:
        said, _ = process.communicate(timeout=KEY_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        raise _failed(f"took longer than {KEY_COMMAND_SECONDS:g} seconds") from None
    finally:
        # A child of the command may keep running, or keep the output open.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode:
        raise _failed(f"ended with status {process.returncode}")
    return said


def _failed(why: str) -> SecretKeyUnavailable:
    return SecretKeyUnavailable(
        f"the key command {why}: mend secrets.key_command in the configuration",
        reason="command_failed",
    )
