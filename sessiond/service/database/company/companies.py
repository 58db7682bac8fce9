"""The company of a session that a database keeps: signals and presence, from and to other daemons.

Law: the event loop waits for nothing here. The courier writes; looks of the session's log read, in one
snapshot with the lines. So signals and lines keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns

from sessiond.model.events import Departure
from sessiond.service.database.company.courier import Courier
from sessiond.service.database.company.incoming import Found, Incoming, presence_body
from sessiond.service.database.company.outgoing import Outgoing, WaitingBytes
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.service.pubsub.company import CompanyNews
from sessiond.service.pubsub.presence import Arrived


class DatabaseCompany:
    """Connections of other daemons in one open session: the port `Company`."""

    def __init__(
        self, outgoing: Outgoing, incoming: Incoming, courier: Courier, now_ns: int
    ) -> None:
        """Take the time by the database's clock."""
        self._outgoing = outgoing
        self._incoming = incoming
        self._courier = courier
        self._ahead_ns = now_ns - monotonic_ns()
        self._news: list[CompanyNews] = []
        self.upto: int | None = None
        """The last line that the log has taken in, while more lines wait; None if there are none."""
        self.is_heard: Callable[[], bool] = _is_not_heard

    # -- the port --------------------------------------------------------------------------

    def now_ns(self) -> int:
        """Return the time by the database's clock."""
        return monotonic_ns() + self._ahead_ns

    def send(self, body: bytes, after_seq: int) -> None:
        """Pass a signal on to other daemons, behind the lines up to `after_seq`."""
        self._outgoing.send(body, after_seq)
        self._courier.wake(self._outgoing)

    def show(self, present: Sequence[Arrived], left: Departure | None = None) -> None:
        """Tell other daemons who is present at this one, and who has just left."""
        self._outgoing.show(presence_body(present, left), is_present=bool(present))
        self._courier.wake(self._outgoing)

    def take(self) -> CompanyNews | None:
        """Return what the last looks found, once; what comes behind lines that wait is kept for later."""
        if not self._news:
            return None
        news, self._news = self._news, []
        shown = [one.present for one in news if one.present is not None]
        found = CompanyNews(
            sum(one.lost for one in news),
            [signal for one in news for signal in one.signals],
            shown[-1] if shown else None,
            [left for one in news for left in one.left],
        )
        return found if self.upto is None else self._told_up_to(self.upto, found)

    def _told_up_to(self, seq: int, found: CompanyNews) -> CompanyNews | None:
        """Return the part of the news that comes before a later line; keep the other part."""
        now = [one for one in found.signals if one.after_seq <= seq]
        later = [one for one in found.signals if one.after_seq > seq]
        if later or found.present is not None or found.left:
            self._news = [CompanyNews(0, later, found.present, found.left)]
        return CompanyNews(found.lost, now) if now or found.lost else None

    # -- the log ---------------------------------------------------------------------------

    def notice(self, there: Head) -> bool:
        """Take note of the session's row as it was seen; return whether a look would find something."""
        name = self._outgoing.name
        mine = next((one for one in there.senders or () if one.name == name), None)
        if self._outgoing.check(mine):
            self._courier.wake(self._outgoing)
        return self._incoming.is_new(there)

    @property
    def is_stale(self) -> bool:
        """True if a look would find that a daemon has ended, or has come back."""
        return self._incoming.is_stale

    def read(self, there: Head) -> Found:
        """Read what a look finds beside the lines. Raises StorageError."""
        return self._incoming.read(there, is_heard=self.is_heard())

    def hear(self, found: Found, upto: int | None = None) -> None:
        """Take in what was read, together with the lines of the look.

        With `upto` the lines behind that one wait, and the news with them.
        """
        self.upto = upto
        self._ahead_ns = found.head.now_ns - monotonic_ns()
        self.notice(found.head)
        news = self._incoming.hear(found)
        if news is not None:
            self._news.append(news)

    @property
    def waits(self) -> bool:
        """True if signals wait to be written."""
        return self._outgoing.waits

    def write_before_lines(self) -> None:
        """Write the signals that lines of this daemon come behind. Raises StorageError."""
        self._outgoing.write_before_lines()

    # -- daemons, beginning and end ----------------------------------------------------------

    @property
    def daemons(self) -> set[str]:
        """The other daemons with present connections, which must show that they are there."""
        return self._incoming.daemons

    @property
    def is_present(self) -> bool:
        """True if a connection of this daemon is present."""
        return self._outgoing.is_present

    def follow(self, before: DatabaseCompany) -> None:
        """Go on where the session's last opening stopped. Raises StorageError."""
        self.is_heard = before.is_heard
        self._news = before._news
        self._incoming.follow(before._incoming, is_heard=self.is_heard())

    def end(self) -> None:
        """Tell other daemons that the opening has ended. Waits for the database."""
        self._outgoing.end()
        self._courier.wake(self._outgoing)


class Companies:
    """The companies of the sessions of one daemon."""

    def __init__(
        self,
        database: SessionDatabase,
        daemon: str,
        new_name: Callable[[], str],
        ring: Callable[[int], None],
        is_silent: Callable[[str], bool],
    ) -> None:
        """Take this daemon's name, and a source of names that no other sender has.

        `ring` tells other daemons of a change; `is_silent` tells that another daemon has ended.
        """
        self._database = database
        self._daemon = daemon
        self._new_name = new_name
        self._is_silent = is_silent
        self._waiting_bytes = WaitingBytes()
        self._courier = Courier(ring)

    def opened(self, head: Head) -> DatabaseCompany:
        """Return the company of a session that is opened at this row."""
        outgoing = Outgoing(
            self._database, head.number, self._daemon, self._new_name(), self._waiting_bytes
        )
        incoming = Incoming(self._database, head, self._daemon, self._is_silent)
        return DatabaseCompany(outgoing, incoming, self._courier, head.now_ns)

    def close(self) -> None:
        """Write no more, once the last write is over."""
        self._courier.close()


def _is_not_heard() -> bool:
    return False
