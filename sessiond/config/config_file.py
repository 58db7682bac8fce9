"""Path of the configuration file.

Law: quick to import and to call, since every `sessiond stdio` does both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


class BadConfiguration(Exception):
    """Error in the configuration; its text names the place, the key and the allowed values.

    `then` says what to do.
    """

    def __init__(self, text: str, then: str = "correct it there") -> None:
        super().__init__(text)
        self.then = then


def file_of(environ: Mapping[str, str], named: str | None) -> Path | None:
    """Return the configuration file, or None if there is none. Raise BadConfiguration."""
    chosen = named or environ.get("SESSIOND_CONFIG")
    if not chosen:
        path = default_file(environ)
        return path if _is_there(path) else None
    path = Path(chosen).expanduser().absolute()
    if not _is_there(path):
        then = "make the file, or leave --config and SESSIOND_CONFIG out"
        raise BadConfiguration(f"there is no configuration file {path}", then)
    return path


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        # A file that cannot be examined may exist and set other values, so it is not ignored.
        text, then = (
            f"{path} cannot be read: {error.strerror}",
            "look at the path and its permissions",
        )
        raise BadConfiguration(text, then) from error


def default_file(environ: Mapping[str, str]) -> Path:
    """Return the path where the configuration is looked for."""
    if sys.platform == "linux":
        # The path that platformdirs gives, without its import: 20 ms for every start of an editor.
        root = Path(environ.get("XDG_CONFIG_HOME", "").strip())
        folder = root if root.is_absolute() else _home() / ".config"
        return folder / "sessiond" / "config.toml"
    from platformdirs import user_config_path

    return user_config_path("sessiond", appauthor=False) / "config.toml"


def _home() -> Path:
    """Return the user's home, from the user database if the environment has none."""
    named = Path(os.environ.get("HOME", ""))
    if named.is_absolute():
        return named
    import pwd

    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        # A user without a database entry, as in some containers: only a named file counts.
        return Path("/")
