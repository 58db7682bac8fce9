"""Messenger of one open session: signals and presence between its subscribers here and other daemons.

Law: a signal of another daemon is told behind the lines that it comes behind, and before all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from sessiond.model.events import Departure, Present
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Listener
from sessiond.service.pubsub.company import Company, CompanyNews
from sessiond.service.pubsub.hub import Hub

FindCompany = Callable[[OpenSession], Company | None]
"""Returns the company of an open session; None for a session that no other daemon can have."""


class Messenger:
    """Signals and presence of one open session. No method waits."""

    def __init__(self, opened: OpenSession, hub: Hub, find: FindCompany | None) -> None:
        """Take what finds the company of a session; None where no session has one."""
        self.is_shared = find is not None
        self._opened = opened
        self._hub = hub
        self._find = find
        self._known: Company | None = None

    @property
    def _company(self) -> Company | None:
        """Company of the session; one that has just come out of memory is told who is present."""
        company = None if self._find is None else self._find(self._opened)
        if company is not None and company is not self._known:
            self._known = company
            company.is_heard = self._is_heard
            if self._hub.presence:
                company.show(self._hub.presence.here())
        return company

    def _is_heard(self) -> bool:
        return self._hub.signals.is_wanted

    def signal(self, body: bytes, asker: Listener) -> None:
        """Pass a notification on to the subscribers that want signals, at every daemon."""
        self._hub.signals.signal(body, asker)
        company = self._company
        if company is not None:
            company.send(body, self._opened.session.seq)

    def appear(self, who: Hashable, present: Present, asker: Listener, *, check: bool) -> None:
        """Set the presence of a connection, and notify a change.

        Raises Overloaded, and with `check` InvalidParams for a state that may not follow.
        """
        company = self._company
        now_ns = 0 if company is None else company.now_ns()
        if self._hub.presence.set(who, present, check=check, now_ns=now_ns):
            self._tell_presence(asker, None)

    def disappear(self, who: Hashable, asker: Listener | None, left: Departure | None) -> None:
        """End the presence of a connection, if there is one."""
        if self._hub.presence.clear(who):
            self._tell_presence(asker, left)

    def _tell_presence(self, asker: Listener | None, left: Departure | None) -> None:
        self._hub.signals.tell_presence(asker, left)
        company = self._company
        if company is not None:
            company.show(self._hub.presence.here(), left)

    # -- from other daemons ----------------------------------------------------------------

    def take(self) -> CompanyNews | None:
        """Return what looks have found at other daemons, once; None without any news."""
        company = self._company
        return None if company is None else company.take()

    def tell_elsewhere(self, news: CompanyNews) -> None:
        """Tell of a change of presence at other daemons, once the lines of a look are published."""
        if news.present is None:
            return
        self._hub.presence.elsewhere = news.present
        for left in news.left or (None,):
            self._hub.signals.tell_presence(None, left)
