"""The port: what a store of sessions does for the service.

Law: a store keeps lines and names, and never decides what a line means. All methods block and are
called in worker threads, but for those that say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from sessiond.service.log.open_session import OpenSession
from sessiond.service.pubsub.company import Company
from sessiond.service.store.checks import Checks
from sessiond.service.store.claims import Claim
from sessiond.service.store.lease_table import LeaseTable
from sessiond.service.store.listed import Listed
from sessiond.service.store.roots import Elsewhere
from sessiond.service.store.sessions import Sessions
from sessiond.service.store.trash import Trash
from sessiond.state.documents import Documents
from sessiond.state.secret_store import SecretStore


class DatabaseStatus(Struct, frozen=True):
    """The database in which a daemon keeps its sessions."""

    name: str
    """Host and database, without secrets."""
    unreachable_since: str | None
    """Time since which the database has not answered; None while the database answers."""
    notifications: bool
    """False if notifications of other daemons do not come through, so that events come with the next poll."""


class SessionStore(Sessions, Trash, Checks, Listed, Elsewhere, Protocol):
    """Sessions, states and secrets of one profile."""

    @property
    def data_folder(self) -> str:
        """Folder of the profile on the daemon's machine."""
        ...

    @property
    def database(self) -> DatabaseStatus | None:
        """State of the database; None for a store without one. Waits for nothing."""
        ...

    @property
    def next_lease_epoch(self) -> Callable[[], int]:
        """Source of numbers for leases, each above all earlier ones. Waits for nothing."""
        ...

    @property
    def lease_table(self) -> Callable[[OpenSession], LeaseTable | None] | None:
        """Source of the leases of sessions that several daemons serve; None if no session is shared.

        A session that no other daemon can have has no leases in the store.
        """
        ...

    @property
    def company(self) -> Callable[[OpenSession], Company | None] | None:
        """Source of the company of sessions at other daemons; None if no session is shared.

        A session that no other daemon can have has no company. Waits for nothing.
        """
        ...

    def claim(self, opened: OpenSession, work: str) -> Claim | None:
        """Return the claim on a piece of work on a session; None if no other daemon can have the session.

        Waits for nothing.
        """
        ...

    def routine(self, work: str, seconds: float) -> Claim | None:
        """Return the claim on work that one daemon does for all, once in so many seconds.

        A daemon that has done the work keeps the claim. None if one daemon serves all sessions. Waits for
        nothing.
        """
        ...

    @property
    def documents(self) -> Documents:
        """Documents of the state store."""
        ...

    @property
    def secrets(self) -> SecretStore:
        """Documents of the secrets, encrypted."""
        ...

    async def run(self, wake: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        """Deliver notices until cancelled; `wake` is called after changes that only lists show.

        `is_watched` tells whether a connection watches lists. Without one, no store that several daemons
        share looks for what `wake` would be called for.
        """
        ...

    def close(self) -> None:
        """Release what the store holds, once all sessions are closed."""
        ...
