"""The port of a session's company: connections at other daemons that have the session open.

Law: nothing here waits for other daemons. Signals and presence that could not be brought to other daemons are
counted there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from sessiond.model.events import Departure
from sessiond.service.pubsub.presence import Arrived


class RelayedSignal(Struct, frozen=True):
    """A signal of a connection at another daemon."""

    after_seq: int
    """The last line that the signal comes behind."""
    body: bytes


class CompanyNews(Struct, frozen=True):
    """Changes at other daemons, as looks of the log found them."""

    lost: int = 0
    """Number of signals that are gone; they came before `signals`."""
    signals: Sequence[RelayedSignal] = ()
    present: Sequence[Arrived] | None = None
    """The connections present at other daemons; None if they have not changed."""
    left: Sequence[Departure] = ()


class Company(Protocol):
    """Connections of other daemons in one open session. No method waits."""

    is_heard: Callable[[], bool]
    """Tells whether a subscriber wants signals. Called in the log's thread, too."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds since 1970, about equal at all daemons."""
        ...

    def send(self, body: bytes, after_seq: int) -> None:
        """Pass a signal on to other daemons, behind the lines up to `after_seq`."""
        ...

    def show(self, present: Sequence[Arrived], left: Departure | None = None) -> None:
        """Tell other daemons who is present at this one, and who has just left."""
        ...

    def take(self) -> CompanyNews | None:
        """Return what the last looks found, once; None without any news."""
        ...
