"""A lease that renews itself, for plain scripts and threads.

Generated from task_leases.py by scripts/unasync; run: make fix
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from sessiond_client.connection_state import ConnectionState, LeaseState
from sessiond_client.errors import SessiondClientError
from sessiond_client.generated.blocking_methods import BlockingMethods
from sessiond_client.generated.options import AcquireOptions
from sessiond_client.limits import RELEASE_SECONDS, TIMEOUT_DEFAULT
from sessiond_client.thread_waiting import ThreadWaiter, ThreadWork

__all__ = ["BlockingHeldLease"]


class BlockingHeldLease:
    """A head that is this client's inside the `with`; move it with `lease_id=lease.id`."""

    def __init__(
        self,
        client: BlockingMethods,
        connection: Callable[[], ConnectionState],
        session_id: str,
        ttl: float,
        options: AcquireOptions,
    ) -> None:
        self.lost = ThreadWork.Event()
        """Set when the lease is known to be over before it was released."""
        self._client = client
        self._connection = connection
        self._session_id = session_id
        patience = options.get("wait_ms", 0) / 1000 + TIMEOUT_DEFAULT
        self._options: AcquireOptions = {"timeout": patience, **options}
        self._clock = ThreadWaiter.clock
        self._tenure = LeaseState(ttl, self._clock)
        self._tenure.wake = self.lost.set
        self._work = ThreadWork()

    @property
    def id(self) -> str:
        """Return the `lease_id` for calls. Raises LeaseLost once the lease is over."""
        return self._tenure.require().lease_id

    @property
    def epoch(self) -> int:
        """Higher than that of any lease on the head before. Raises LeaseLost once it is over."""
        return self._tenure.require().epoch

    def __enter__(self) -> Self:
        tenure, asked_at = self._tenure, self._clock()
        lease = self._client.acquire(self._session_id, tenure.ttl_ms, **self._options)
        if not self._options.get("wait_ms"):
            tenure.granted(lease, asked_at)
        else:
            # It was given when the wait was over, which only the daemon knows: from now on
            # counts what is asked now.
            tenure.granted(lease, self._clock())
            self._renew()
            tenure.require()
        self._standing = self._connection()
        self._standing.begin(tenure)
        self._work.start(self._keep)
        return self

    def __exit__(self, *_: object) -> None:
        self._work.stop(self._release)

    def _keep(self) -> None:
        tenure = self._tenure
        while not tenure.is_lost and self._work.pause(tenure.renew_at - self._clock()):
            self._renew()

    def _renew(self) -> None:
        tenure, asked_at = self._tenure, self._clock()
        left = max(0.0, tenure.ends_at - asked_at)
        try:
            lease = self._client.renew(
                self._session_id, tenure.require().lease_id, tenure.ttl_ms, timeout=left
            )
        except SessiondClientError as error:
            tenure.lose(error)
        else:
            tenure.granted(lease, asked_at)

    def _release(self) -> None:
        self._standing.end(self._tenure)
        try:
            self._client.release(self._session_id, self.id, timeout=RELEASE_SECONDS)
        except SessiondClientError:
            # It is over, or will be by itself.
            return
