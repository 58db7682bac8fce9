"""A lease that renews itself, for plain scripts and threads."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sessiond_client.connection_state import ConnectionState
from sessiond_client.errors import SessiondClientError
from sessiond_client.generated.options import AcquireOptions
from sessiond_client.lease_state import LeaseState
from sessiond_client.limits import RELEASE_SECONDS, TIMEOUT_DEFAULT

if TYPE_CHECKING:
    from sessiond_client.blocking import BlockingClient

__all__ = ["BlockingHeldLease"]


class BlockingHeldLease:
    """A head that is this client's inside the `with`; move it with `lease_id=lease.id`.

    A thread of its own renews it.
    """

    def __init__(
        self,
        client: BlockingClient,
        standing: ConnectionState,
        session_id: str,
        ttl: float,
        options: AcquireOptions,
    ) -> None:
        self.lost = threading.Event()
        """Set when the lease is known to be over before it was released."""
        self._client = client
        self._standing = standing
        self._session_id = session_id
        patience = options.get("wait_ms", 0) / 1000 + TIMEOUT_DEFAULT
        self._options: AcquireOptions = {"timeout": patience, **options}
        self._tenure = LeaseState(ttl, time.monotonic)
        self._tenure.wake = self._told
        self._is_over = False
        self._woken = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="sessiond-lease", daemon=True)

    @property
    def id(self) -> str:
        """What the daemon wants as `lease_id`. Raises LeaseLost once it is over."""
        return self._tenure.require().lease_id

    @property
    def epoch(self) -> int:
        """Higher than that of any lease on the head before. Raises LeaseLost once it is over."""
        return self._tenure.require().epoch

    def __enter__(self) -> Self:
        asked_at = time.monotonic()
        lease = self._client.acquire(self._session_id, self._tenure.ttl_ms, **self._options)
        if not self._options.get("wait_ms"):
            self._tenure.granted(lease, asked_at)
        else:
            # It was given when the wait was over, which only the daemon knows: from now on
            # counts what is asked now.
            self._tenure.granted(lease, time.monotonic())
            self._renew()
            self._tenure.require()
        self._standing.begin(self._tenure)
        self._keeper.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._standing.end(self._tenure)
        self._is_over = True
        self._woken.set()
        self._keeper.join()
        try:
            self._client.release(self._session_id, self.id, timeout=RELEASE_SECONDS)
        except SessiondClientError:
            # It is over, or will be by itself.
            return

    def _told(self) -> None:
        self.lost.set()
        self._woken.set()

    def _keep(self) -> None:
        while not self._is_over and not self._tenure.is_lost:
            if not self._woken.wait(self._tenure.renew_at - time.monotonic()):
                self._renew()

    def _renew(self) -> None:
        tenure = self._tenure
        asked_at = time.monotonic()
        left = max(0.0, tenure.ends_at - asked_at)
        try:
            lease = self._client.renew(
                self._session_id, tenure.require().lease_id, tenure.ttl_ms, timeout=left
            )
        except SessiondClientError as error:
            tenure.lose(error)
        else:
            tenure.granted(lease, asked_at)
