"""Which sessions are open, and whose turn a session's file is.

Law: one at a time has a session's file, its host or an act on the file as a
whole (a delete, a repair); whoever comes next waits until it is let go. Looking
a host up and retiring it are synchronous: requests queue in its inbox while a
worker thread reads the file, so their order is kept and nothing waits for
another session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup

from sessiond.errors import (
    Cancelled,
    Draining,
    SessiondError,
    SessionExists,
    exhausted,
)
from sessiond.limits import RETRY_AFTER_MS, WRITER_THREADS_MAX
from sessiond.model.entries import Header
from sessiond.model.events import CatalogChange
from sessiond.service.actor.actor import Host, Keeper
from sessiond.service.actor.exclusive import Retirement
from sessiond.service.actor.live import Means
from sessiond.service.compaction.recommender import Recommending
from sessiond.service.compaction.runner import Runs
from sessiond.service.context.cache_budget import Caches
from sessiond.service.environment import Environment
from sessiond.service.external.watcher import Watching
from sessiond.service.files.store import Store
from sessiond.service.listing.live_catalog import Roster
from sessiond.service.log.open_session import Opened
from sessiond.service.log.session_info import Persist
from sessiond.service.registry.eviction import Room

__all__ = ["Hosts"]

# What an act on the file as a whole means for lists, by its reason.
_CHANGES: Final[dict[str, CatalogChange]] = {
    "deleted": "deleted",
    "repaired": "updated",
    "restored": "created",
}


class Hosts:
    """The open sessions of one daemon."""

    def __init__(  # noqa: PLR0913 - what one daemon has
        self,
        store: Store,
        environment: Environment,
        tasks: TaskGroup,
        roster: Roster,
        watching: Watching,
        runs: Runs,
        *,
        on_leave: Callable[[], None],
    ) -> None:
        self.draining = False
        self.caches = Caches()
        self._on_leave = on_leave
        self._roster = roster
        self._store = store
        self._environment = environment
        self._tasks = tasks
        self._hosts: dict[str, Host] = {}
        # Sessions whose file is somebody's who does not take requests any more, until it is let go.
        self._leaving: dict[str, anyio.Event] = {}
        self.room = Room(
            self._hosts, self._leaving, store.files, environment.monotonic, self._dismiss
        )
        self._ready: list[Host] = []
        self._runs = runs
        self._recommending = Recommending(tasks, runs)
        self._keeper = Keeper(
            on_ready=self._ready.append,
            on_change=self._changed,
            means=Means(
                environment=environment,
                # Writers do not queue behind the openings and reads of other sessions.
                threads=CapacityLimiter(WRITER_THREADS_MAX),
                next_lease_epoch=store.next_lease_epoch,
                reopen=store.reopen,
                watching=watching,
                caches=self.caches,
            ),
        )

    def _changed(self, host: Host) -> None:
        self._roster.touch(host)
        self._recommending.touch(host)

    # -- one session ---------------------------------------------------------------

    def host(self, session_id: str) -> Host:
        """The host of a session, opened on demand. Raises Overloaded, Draining."""
        found = self._hosts.get(session_id)
        if found is not None:
            return found
        return self._start(session_id, lambda: self._store.open(session_id))

    def find(self, session_id: str) -> Host | None:
        """The host of a session if it is open or about to be."""
        return self._hosts.get(session_id)

    def is_free(self, session_id: str) -> bool:
        """Whether nobody has the session's file, nor waits for it."""
        return session_id not in self._hosts and session_id not in self._leaving

    def create(self, header: Header, persist: Persist) -> bool:
        """Let the session's host create it, or open it when the file is there.

        `host.opened.created` will say which. False when it is open already, or somebody
        else is about to create it.
        """

        return self.begin(
            header.id,
            lambda: self._store.create(header, persist),
            in_memory=persist == "never",
        )

    def begin(
        self, session_id: str, make: Callable[[], Opened], *, in_memory: bool = False
    ) -> bool:
        """The same for a session that `make` makes: it raises SessionExists where there is one."""

        def load() -> Opened:
            try:
                return make()
            except SessionExists:
                return self._store.open(session_id)

        host = self._hosts.get(session_id)
        if host is None:
            host = self._start(session_id, load, in_memory=in_memory)
        return host.create_instead(load)

    def retire(
        self, session_id: str, reason: str, act: Callable[[Opened | None], Any]
    ) -> Retirement:
        """End a session's host and let `act` have the file, in a worker thread.

        What was asked before is served first; what is asked from here on waits for the act
        and then opens the session again. `act` is given the session that was open, let go
        of by then, or None. When it is done its subscribers are told `reason`, or why it
        failed. Raises Draining.
        """
        self._require_running()
        retirement = Retirement(reason, act, self._environment)
        host = self._hosts.get(session_id)
        if host is not None:
            host.retirement = retirement
            self._dismiss(host)
        else:
            predecessor = self._leaving.get(session_id)
            released = self._leaving[session_id] = anyio.Event()
            self._tasks.start_soon(self._act, session_id, retirement, predecessor, released)
        return retirement

    def _start(
        self, session_id: str, load: Callable[[], Opened], *, in_memory: bool = False
    ) -> Host:
        self._require_running()
        awaited = self.room.make(in_memory=in_memory)
        host = Host(session_id, load, self._keeper)
        host.meant_for_memory = in_memory
        self._hosts[session_id] = host
        if session_id in self._leaving:
            awaited.append(self._leaving[session_id])
        self._tasks.start_soon(self._serve, host, awaited)
        return host

    def _require_running(self) -> None:
        if self.draining:
            raise _stopping()

    # -- turns -----------------------------------------------------------------------

    async def _serve(self, host: Host, awaited: list[anyio.Event]) -> None:
        """Run a host to its end, once the one before it has let go of the file, and others made room."""
        for released in awaited:
            await released.wait()
        await host.run()
        self._recommending.forget(host)
        self._end_runs(host)
        if self._hosts.get(host.session_id) is host:
            self._leave(host)
        with anyio.CancelScope(shield=True):
            try:
                if host.is_open:
                    await self._let_go(host)
            except Exception as bug:  # noqa: BLE001 - one session's end must not be the daemon's
                short = exhausted(bug, RETRY_AFTER_MS)
                if short is None:
                    self._environment.report_bug(f"closing {host.session_id}", bug)
                else:
                    # The next survey reads what was not noted.
                    self._environment.report_trouble(f"closing {host.session_id}: {short}")
            if host.retirement is not None:
                await host.retirement.run(host.opened if host.is_open else None)
                self._tell_roster(host.session_id, host.retirement)
                host.tell_watchers(host.retirement.told)
                host.retirement.done.set()
        self._release(host.session_id, host.released)

    async def _let_go(self, host: Host) -> None:
        try:
            await to_thread.run_sync(self._store.settle, host.opened)
            await self._roster.let_go(host)
        finally:
            await _surely(host.opened.journal.close)

    async def _act(
        self,
        session_id: str,
        retirement: Retirement,
        predecessor: anyio.Event | None,
        released: anyio.Event,
    ) -> None:
        """The same for an act on a session that nobody has open."""
        if predecessor is not None:
            await predecessor.wait()
        with anyio.CancelScope(shield=True):
            await retirement.run(None)
        self._tell_roster(session_id, retirement)
        retirement.done.set()
        self._release(session_id, released)

    def _tell_roster(self, session_id: str, retirement: Retirement) -> None:
        change = _CHANGES.get(retirement.told)
        if change is not None:
            self._roster.changed(session_id, change)

    def _leave(self, host: Host) -> None:
        """From here on whoever names the session waits until this host has let go of it."""
        del self._hosts[host.session_id]
        self._leaving[host.session_id] = host.released
        self._on_leave()

    def _release(self, session_id: str, released: anyio.Event) -> None:
        if self._leaving.get(session_id) is released:
            del self._leaving[session_id]
        released.set()

    def _dismiss(self, host: Host) -> None:
        self._leave(host)
        self._stop(host)

    def _stop(self, host: Host) -> None:
        # They would keep it open.
        self._end_runs(host)
        host.stop(_stopping() if self.draining else None)

    def _end_runs(self, host: Host) -> None:
        if self.draining:
            error: SessiondError = _stopping()
        else:
            error = Cancelled("the session was closed while it was being compacted")
        self._runs.end(host, error)

    def unload_unused(self, host: Host) -> None:
        """Let go of a session that its last user has closed."""
        if host.can_unload and self._hosts.get(host.session_id) is host:
            self._dismiss(host)

    def run_ready(self) -> None:
        """Serve what a chunk of requests left for sessions in memory."""
        ready = self._ready[:]
        self._ready.clear()
        for host in ready:
            host.run_ready()

    async def drain(self) -> None:
        """Serve what was asked, close every session; nothing new is taken."""
        self.draining = True
        hosts = list(self._hosts.values())
        for host in hosts:
            self._stop(host)
        for host in hosts:
            await host.released.wait()
        for released in list(self._leaving.values()):
            await released.wait()

    # -- all of them -----------------------------------------------------------------

    def open_hosts(self) -> Iterator[Host]:
        """The sessions that are open now."""
        return (host for host in self._hosts.values() if host.is_open)

    def describes(self, session_id: str) -> bool:
        """Whether a session's file is somebody's who says what lists show of it. In any thread."""
        host = self._hosts.get(session_id)
        return host.is_open if host is not None else session_id in self._leaving

    @property
    def any_in_memory(self) -> bool:
        """Whether a session would be lost with the daemon."""
        return any(host.counts_as_memory for host in self._hosts.values())

    def requests_waiting(self) -> int:
        """Commands that wait for a writer."""
        return sum(host.waiting for host in self._hosts.values())


async def _surely(work: Callable[[], None]) -> None:
    """In a worker thread; here, if there is none to be had: a lock that stays keeps the next one out."""
    try:
        await to_thread.run_sync(work)
    except RuntimeError as error:
        if exhausted(error, RETRY_AFTER_MS) is None:
            raise
        work()


def _stopping() -> Draining:
    return Draining("the daemon is stopping", retry_after_ms=RETRY_AFTER_MS)
