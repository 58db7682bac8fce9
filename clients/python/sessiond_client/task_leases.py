"""A lease that renews itself, for anyio programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from sessiond_client.connection_state import ConnectionState, LeaseState
from sessiond_client.errors import SessiondClientError
from sessiond_client.generated.async_methods import AsyncMethods
from sessiond_client.generated.options import AcquireOptions
from sessiond_client.limits import RELEASE_SECONDS, TIMEOUT_DEFAULT
from sessiond_client.task_waiting import TaskWaiter, TaskWork

__all__ = ["HeldLease"]


class HeldLease:
    """A head that is this client's inside the `async with`; move it with `lease_id=lease.id`."""

    def __init__(
        self,
        client: AsyncMethods,
        connection: Callable[[], ConnectionState],
        session_id: str,
        ttl: float,
        options: AcquireOptions,
    ) -> None:
        self.lost = TaskWork.Event()
        """Set when the lease is known to be over before it was released."""
        self._client = client
        self._connection = connection
        self._session_id = session_id
        patience = options.get("wait_ms", 0) / 1000 + TIMEOUT_DEFAULT
        self._options: AcquireOptions = {"timeout": patience, **options}
        self._clock = TaskWaiter.clock
        self._tenure = LeaseState(ttl, self._clock)
        self._tenure.wake = self.lost.set
        self._work = TaskWork()

    @property
    def id(self) -> str:
        """Return the `lease_id` for calls. Raises LeaseLost once the lease is over."""
        return self._tenure.require().lease_id

    @property
    def epoch(self) -> int:
        """Higher than that of any lease on the head before. Raises LeaseLost once it is over."""
        return self._tenure.require().epoch

    async def __aenter__(self) -> Self:
        tenure, asked_at = self._tenure, self._clock()
        lease = await self._client.acquire(self._session_id, tenure.ttl_ms, **self._options)
        if not self._options.get("wait_ms"):
            tenure.granted(lease, asked_at)
        else:
            # It was given when the wait was over, which only the daemon knows: from now on
            # counts what is asked now.
            tenure.granted(lease, self._clock())
            await self._renew()
            tenure.require()
        self._standing = self._connection()
        self._standing.begin(tenure)
        await self._work.start(self._keep)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._work.stop(self._release)

    async def _keep(self) -> None:
        tenure = self._tenure
        while not tenure.is_lost and await self._work.pause(tenure.renew_at - self._clock()):
            await self._renew()

    async def _renew(self) -> None:
        tenure, asked_at = self._tenure, self._clock()
        left = max(0.0, tenure.ends_at - asked_at)
        try:
            lease = await self._client.renew(
                self._session_id, tenure.require().lease_id, tenure.ttl_ms, timeout=left
            )
        except SessiondClientError as error:
            tenure.lose(error)
        else:
            tenure.granted(lease, asked_at)

    async def _release(self) -> None:
        self._standing.end(self._tenure)
        try:
            await self._client.release(self._session_id, self.id, timeout=RELEASE_SECONDS)
        except SessiondClientError:
            # It is over, or will be by itself.
            return
