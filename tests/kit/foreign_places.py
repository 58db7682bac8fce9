"""Places of sockets at which another user may listen, for clients that cannot ask who does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kit.other_user import OTHER_UID, listening_as

__all__ = ["PLACES", "WAYS", "overheard"]


def _open_folder(folder: Path) -> Path:
    own = _folder(folder / "open")
    own.chmod(0o755)
    return own / "s"


def _folder_of_another(folder: Path) -> Path:
    theirs = _folder(folder / "theirs")
    os.chown(theirs, OTHER_UID, -1)
    return theirs / "s"


def _linked_folder(folder: Path) -> Path:
    _folder(folder / "own")
    (folder / "link").symlink_to(folder / "own")
    return folder / "link" / "s"


def _linked_socket(folder: Path) -> Path:
    theirs = _folder_of_another(folder)
    own = _folder(folder / "own")
    (own / "s").symlink_to(theirs)
    return own / "s"


def _socket_of_another(folder: Path) -> Path:
    return _folder(folder / "own") / "s"


def _open_way(folder: Path) -> Path:
    _folder(folder / "way").chmod(0o777)
    return _folder(folder / "way" / "own") / "s"


def _way_of_another(folder: Path) -> Path:
    way = _folder(folder / "way")
    own = _folder(way / "own")
    os.chown(way, OTHER_UID, -1)
    return own / "s"


def _folder(path: Path) -> Path:
    path.mkdir(mode=0o700)
    return path


PLACES: Final[dict[str, tuple[Callable[[Path], Path], str]]] = {
    "an open folder": (_open_folder, "0755"),
    "the folder of another user": (_folder_of_another, f"uid {OTHER_UID}"),
    "a linked folder": (_linked_folder, "link"),
    "a linked socket": (_linked_socket, "link"),
    "the socket of another user": (_socket_of_another, f"uid {OTHER_UID}"),
}
"""Functions that make a place in a folder, each with words of the client's reason."""
WAYS: Final[dict[str, tuple[Callable[[Path], Path], str]]] = {
    "an open folder above": (_open_way, "0777"),
    "a folder above of another user": (_way_of_another, f"uid {OTHER_UID}"),
}
"""More places, for a client without a descriptor of the folder."""


@contextmanager
def overheard(place: Path, name: str) -> Iterator[None]:
    """Let another user listen at a place of this name during a block, and require that nothing is sent there."""
    with listening_as(OTHER_UID, place.resolve()) as listener:
        if name != "the socket of another user":
            os.chown(place.resolve(), 0, 0)
        yield
        listener.require_silence()
