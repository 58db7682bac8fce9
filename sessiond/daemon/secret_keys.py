"""Configured source of the keys of the secrets: a command, or a file in the configuration folder.

The command writes the key to its standard output.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sessiond.config.config_file import default_file
from sessiond.config.configuration import Secrets
from sessiond.daemon.output_of import output_of
from sessiond.errors import SecretKeyUnavailable
from sessiond.journal.profile.layout import Layout, data_home
from sessiond.model.digests import sha256_hex
from sessiond.state.keys import KeySettings

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
    return output_of(command, _failed)


def _failed(why: str) -> SecretKeyUnavailable:
    return SecretKeyUnavailable(
        f"the key command {why}: mend secrets.key_command in the configuration",
        reason="command_failed",
    )
