"""The port of a database's company tables: signals, and who is present, of which it understands nothing.

A sender is one opening of one session at one daemon. It numbers its signals from 1 on, without gaps. A look at
the row of a session shows its senders in one snapshot with the position: each with the number of its last
signal. So a reader knows how many signals there were, even if the database has lost or removed them.

Law 1: both tables may be emptied by a crash of the database. What must not be lost is in no table of these.
Law 2: a change carries a turn, and takes effect only if the turn is above that of the row. So a change whose
answer was lost may be sent again, and one that comes late changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct


class Sender(Struct, frozen=True):
    """A sender as it is seen with the row of its session."""

    name: str
    daemon: str
    ordinal: int
    """Number of its last signal; 0 without any."""
    presence: int
    """Number of changes of its presence."""
    is_open: bool
    """False once the opening has ended, or its daemon was found dead: no connection is present there."""


class StoredSignal(Struct, frozen=True):
    """A signal of a sender."""

    sender: str
    ordinal: int
    after_seq: int
    """The last line that the signal comes behind."""
    body: bytes


class StoredPresence(Struct, frozen=True):
    """Presence at a sender, and the number of changes up to it."""

    sender: str
    presence: int
    body: bytes


class SenderChange(Struct, frozen=True):
    """A change of a sender, with its last signals."""

    number: int
    """The session."""
    sender: Sender
    turn: int
    body: bytes | None
    """Presence; None if it has not changed."""
    signals: Sequence[StoredSignal] = ()
    kept_from: int = 0
    """Earlier signals of the sender are removed."""


class CompanyRows(Protocol):
    """Signals and senders of sessions. Every method is one transaction, and raises StorageError."""

    def change(self, change: SenderChange) -> None:
        """Change a sender and store its signals, all or none, unless a later turn was here before."""
        ...

    def signals(self, number: int, wanted: Mapping[str, tuple[int, int]]) -> list[StoredSignal]:
        """Return the signals of senders behind the first and up to the second ordinal, in any order.

        Signals older than SIGNALS_KEPT_SECONDS are left out, and the oldest ones beyond
        SIGNALS_READ_BYTES_MAX.
        """
        ...

    def presences(self, number: int, senders: Sequence[str]) -> list[StoredPresence]:
        """Return the presence at senders; unknown senders are left out."""
        ...

    def end_of_daemons(self, daemons: Sequence[str]) -> None:
        """End all senders of daemons that have ended."""
        ...

    def clean(self) -> None:
        """Remove signals after SIGNALS_KEPT_SECONDS, and ended senders after SENDER_KEPT_SECONDS.

        A daemon that has noted nothing for SENDER_KEPT_SECONDS is removed, and its senders have ended, too.
        """
        ...
