"""Which configuration file counts.

Law: quick to import and to ask, since every `sessiond stdio` does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BadConfiguration", "default_file", "file_of"]


class BadConfiguration(Exception):
    """The text names the place, the key and what is allowed."""


def file_of(environ: Mapping[str, str], named: str | None) -> Path | None:
    """The configuration file; None where there is none. Raises BadConfiguration."""
    chosen = named or environ.get("SESSIOND_CONFIG")
    if not chosen:
        path = default_file(environ)
        return path if _is_there(path) else None
    path = Path(chosen).expanduser().absolute()
    if not _is_there(path):
        raise BadConfiguration(f"there is no configuration file {path}")
    return path


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        # One that may not be looked for may be there, and say something else.
        raise BadConfiguration(f"{path} cannot be read: {error.strerror}") from error


def default_file(environ: Mapping[str, str]) -> Path:
    """Where the configuration is looked for."""
    if sys.platform == "linux":
        # What platformdirs says, without the 20 ms that importing it would cost every editor.
        root = Path(environ.get("XDG_CONFIG_HOME", "").strip())
        folder = root if root.is_absolute() else _home() / ".config"
        return folder / "sessiond" / "config.toml"
    from platformdirs import user_config_path

    return user_config_path("sessiond", appauthor=False) / "config.toml"


def _home() -> Path:
    """The user's; that of the user database if the environment has none."""
    named = Path(os.environ.get("HOME", ""))
    if named.is_absolute():
        return named
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # A user whom nobody knows, as in some containers, has no configuration but what is named.
        return Path("/")
