"""The port of a way on which things move, digests of lines, and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal, Protocol

from msgspec import Struct

from sessiond.errors import SessionExists, StorageError
from sessiond.journal.store import SessionLog
from sessiond.service.copying.source import portions
from sessiond.service.database.database import NO_LINES, chained


class Remark(Struct, frozen=True):
    """Remark for the operator on a thing that has left its place."""

    message: str
    is_moved: bool
    """False if the thing is in the trash, and not in the other place."""


class Way(Protocol):
    """A way on which things move, each by its name."""

    def names(self) -> list[str]:
        """Return the names of what is to be moved. Raises StorageError."""
        ...

    def move(self, name: str) -> Remark | None:
        """Move one. Raises SessiondError; then it is where it was."""
        ...


IN_DOUBT: Final = Remark(
    "the database does not show whether an interrupted move or another daemon has ended the session"
    " there: its file stays",
    is_moved=False,
)
"""Remark on a session that a note of an interrupted move names, and whose row tells nothing."""


def pieces_of(log: SessionLog) -> Iterator[list[bytes]]:
    """Yield all lines of a log, some at a time."""
    return map(log.read_many, portions(log, range(log.line_count)))


def digest_of(pieces: Iterable[Sequence[bytes]]) -> bytes:
    """Return the digest of all lines."""
    return chained(NO_LINES, chain.from_iterable(pieces))


def is_another(session_id: str, where: str) -> SessionExists:
    """Return the refusal to replace another session of an equal id."""
    text = f"{where} has another session of this id, which stays as it is"
    return SessionExists(text, session_id=session_id)


def was_deleted(session_id: str, left: Literal["trashed", "other", "none"]) -> Remark:
    """Return the remark on a session that another daemon has deleted behind an interrupted move.

    `left` is what became of the file in the profile: it is in the trash, has other lines than those that
    were copied, or is gone.
    """
    text = "another daemon has deleted the session in the database behind an interrupted move"
    if left == "none":
        return Remark(text, is_moved=False)
    trashed = f"its file is in the profile's trash; `sessiond restore {session_id}` brings it back"
    other = "the file in the profile has other lines than those that were copied, and stays"
    return Remark(f"{text}: {trashed if left == 'trashed' else other}", is_moved=False)


def was_changed(name: str) -> StorageError:
    """Return the refusal to move what another daemon has changed during the move."""
    text = f"another daemon has changed {name} meanwhile: move again"
    return StorageError(text, errno="EBUSY", path=name, retryable=True)
