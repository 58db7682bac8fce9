"""The socket of a profile's daemon: one rule for the daemon and every client.

Law: standard library only and quick to import, since `sessiond stdio` waits for it.

    --socket or an argument
    $SESSIOND_SOCKET, unless a profile or a home was named beside the environment
    $XDG_RUNTIME_DIR/sessiond/<name>.sock
    $TMPDIR (else /tmp)/sessiond-<uid>/<name>.sock     the folder must be ours, 0700 and no link

`<name>` is the profile; with a home of its own it is `<profile>-<8 hex digits>`, the first of
the SHA-256 of the home's absolute path. A default place too long for a socket gets a hashed
name in the temporary folder; a long path that was given is reached through
/proc/self/fd, and refused where the system has no such folder (macOS).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

__all__ = [
    "ADDRESS_BYTES_MAX",
    "DEFAULT_PROFILE",
    "UnsafeFolder",
    "address",
    "default_place",
    "is_shared_folder",
    "require_private",
    "socket_place",
]

DEFAULT_PROFILE: Final = "default"
# What fits into sockaddr_un beside the NUL.
ADDRESS_BYTES_MAX: Final = 107 if sys.platform == "linux" else 103
_HASH_DIGITS: Final = 8
_LONG_HASH_DIGITS: Final = 24
_OWN_FOLDERS: Final = Path("/proc/self/fd")


class UnsafeFolder(OSError):
    """The folder of the sockets is not this user's alone; the text says what to do."""


def socket_place(
    environ: Mapping[str, str],
    *,
    socket: str | os.PathLike[str] | None = None,
    profile: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the absolute path of the socket.

    A profile or a home that is given here wins over the socket of the environment. Raises
    UnsafeFolder for a folder that other users may write to.
    """
    named = os.fspath(socket) if socket else None
    if named is None and not (profile or home):
        named = environ.get("SESSIOND_SOCKET")
    if named:
        return Path(named).expanduser().absolute()
    place = default_place(environ, profile=profile, home=home)
    if is_shared_folder(environ, place.parent):
        require_private(place.parent)
    return place


def default_place(
    environ: Mapping[str, str],
    *,
    profile: str | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Path:
    """Return the default socket of a profile. Raises ValueError for a name that is no profile."""
    name = profile or environ.get("SESSIOND_PROFILE") or DEFAULT_PROFILE
    if "/" in name or name.startswith("."):
        raise ValueError(f"{name!r} is no profile: a profile is a plain name")
    own_home = Path(home or environ.get("SESSIOND_HOME", "")).expanduser()
    # A relative folder counts where it was given here, not in the environment.
    if home or own_home.is_absolute():
        name = f"{name}-{_hash(str(own_home.absolute()), _HASH_DIGITS)}"
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    # The specification of the variable: a relative path is to be ignored.
    folder = runtime / "sessiond" if runtime.is_absolute() else _temporary(environ)
    place = folder / f"{name}.sock"
    if len(os.fsencode(place)) <= ADDRESS_BYTES_MAX:
        return place
    return _temporary(environ) / f"{_hash(os.fspath(place), _LONG_HASH_DIGITS)}.sock"


def is_shared_folder(environ: Mapping[str, str], folder: Path) -> bool:
    """Return whether a folder is the one in the temporary folder, which any user could have made."""
    return folder == _temporary(environ)


def require_private(folder: Path) -> None:
    """Raise UnsafeFolder unless the folder is ours alone, or not there yet."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        flaw = "is no folder"
    elif found.st_uid != os.getuid():
        flaw = f"belongs to the user with uid {found.st_uid}"
    elif stat.S_IMODE(found.st_mode) & 0o077:
        flaw = f"is open to others (mode {stat.S_IMODE(found.st_mode):04o}, 0700 is needed)"
    else:
        return
    raise UnsafeFolder(
        f"{folder} {flaw}, so another user could stand in for the daemon; "
        "mend it, or choose a place with --socket or SESSIOND_SOCKET"
    )


@contextmanager
def address(path: str | os.PathLike[str]) -> Generator[str]:
    """Yield the address for `bind` or `connect` of a path of any length. Raises OSError."""
    text = os.fspath(path)
    if len(os.fsencode(text)) <= ADDRESS_BYTES_MAX:
        yield text
        return
    if not _OWN_FOLDERS.is_dir():
        raise OSError(
            errno.ENAMETOOLONG,
            f"too long for a socket, which takes {ADDRESS_BYTES_MAX} bytes here; choose a shorter path",
            text,
        )
    folder, name = os.path.split(text)
    descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"{_OWN_FOLDERS}/{descriptor}/{name}"
        if len(os.fsencode(short)) > ADDRESS_BYTES_MAX:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), text)
        yield short
    finally:
        os.close(descriptor)


def _temporary(environ: Mapping[str, str]) -> Path:
    root = Path(environ.get("TMPDIR", ""))
    if not root.is_absolute():
        root = Path("/tmp")  # noqa: S108 - the folder in it is checked
    return root / f"sessiond-{os.getuid()}"


def _hash(text: str, digits: int) -> str:
    # Only who has a home of its own waits for the library.
    from hashlib import sha256

    return sha256(os.fsencode(text)).hexdigest()[:digits]
