"""A lease that renews itself, for anyio programs."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
from anyio.abc import TaskGroup

from sessiond_client.connection_state import ConnectionState
from sessiond_client.errors import SessiondClientError
from sessiond_client.generated.options import AcquireOptions
from sessiond_client.lease_state import LeaseState
from sessiond_client.limits import RELEASE_SECONDS, TIMEOUT_DEFAULT

if TYPE_CHECKING:
    from sessiond_client.aio import Client

__all__ = ["HeldLease"]


class HeldLease:
    """A head that is this client's inside the `async with`; move it with `lease_id=lease.id`."""

    def __init__(
        self,
        client: Client,
        standing: ConnectionState,
        session_id: str,
        ttl: float,
        options: AcquireOptions,
    ) -> None:
        self.lost = anyio.Event()
        """Set when the lease is known to be over before it was released."""
        self._client = client
        self._standing = standing
        self._session_id = session_id
        patience = options.get("wait_ms", 0) / 1000 + TIMEOUT_DEFAULT
        self._options: AcquireOptions = {"timeout": patience, **options}
        self._tenure = LeaseState(ttl, anyio.current_time)
        self._tenure.wake = self.lost.set
        self._tasks: TaskGroup | None = None

    @property
    def id(self) -> str:
        """What the daemon wants as `lease_id`. Raises LeaseLost once it is over."""
        return self._tenure.require().lease_id

    @property
    def epoch(self) -> int:
        """Higher than that of any lease on the head before. Raises LeaseLost once it is over."""
        return self._tenure.require().epoch

    async def __aenter__(self) -> Self:
        asked_at = anyio.current_time()
        lease = await self._client.acquire(self._session_id, self._tenure.ttl_ms, **self._options)
        if not self._options.get("wait_ms"):
            self._tenure.granted(lease, asked_at)
        else:
            # It was given when the wait was over, which only the daemon knows: from now on
            # counts what is asked now.
            self._tenure.granted(lease, anyio.current_time())
            await self._renew()
            self._tenure.require()
        self._standing.begin(self._tenure)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._keep)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._tasks is not None, "it was entered"
        self._tasks.cancel_scope.cancel()
        try:
            # What went wrong inside is not the group's: it goes on as it is, in no other group.
            await self._tasks.__aexit__(None, None, None)
        finally:
            self._standing.end(self._tenure)
            with anyio.CancelScope(shield=True):
                await self._release()

    async def _keep(self) -> None:
        while not self._tenure.is_lost:
            with anyio.move_on_after(self._tenure.renew_at - anyio.current_time()):
                await self.lost.wait()
                return
            await self._renew()

    async def _renew(self) -> None:
        tenure = self._tenure
        asked_at = anyio.current_time()
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
        try:
            await self._client.release(self._session_id, self.id, timeout=RELEASE_SECONDS)
        except SessiondClientError:
            # It is over, or will be by itself.
            return
