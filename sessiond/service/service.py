"""Which sessions are open, and for whom.

A session is opened by the first request that names it and unloaded when it has
been idle for a while or its place is needed. Looking a host up is synchronous:
requests queue in its inbox while a worker thread reads the file, so nothing
waits for another session and the order of requests is kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from sessiond.errors import Draining, Overloaded, SessionExists
from sessiond.limits import DEFAULT_BOUNDS, RETRY_AFTER_MS, WRITER_THREADS_MAX, Bounds
from sessiond.model.entries import Header
from sessiond.service.client import Client
from sessiond.service.host import Host, HostStatistics
from sessiond.service.jobs import answer_later
from sessiond.service.opened import Opened, Persist, SessionInfo
from sessiond.service.ports import Environment, Listener, Ticket
from sessiond.service.store import Listing, Store

__all__ = ["Service", "ServiceStatistics", "newest_first"]


class ServiceStatistics(Struct, frozen=True):
    """How busy the daemon is."""

    sessions_open: int
    sessions_in_memory: int
    clients: int
    requests_waiting: int
    draining: bool
    sessions: dict[str, HostStatistics]


class Service:
    """The open sessions and the clients of one daemon."""

    def __init__(
        self,
        store: Store,
        environment: Environment,
        tasks: TaskGroup,
        *,
        profile: str,
        request_stop: Callable[[], None],
    ) -> None:
        self.store = store
        self.environment = environment
        self.profile = profile
        self.data_folder = store.data_folder
        self.instance_id = environment.new_session_id()
        self.started_at = environment.now()
        self.request_stop = request_stop
        self.bounds: Bounds = DEFAULT_BOUNDS
        self.draining = False
        self.revision = 0
        self._shown: dict[bool, int] = {}
        self.clients: dict[Client, None] = {}
        self._tasks = tasks
        self._hosts: dict[str, Host] = {}
        self._closing: dict[str, anyio.Event] = {}
        self._ready: list[Host] = []
        # Writers do not queue behind the openings and reads of other sessions.
        self._writers = CapacityLimiter(WRITER_THREADS_MAX)
        self._client_number = 0
        self._deserted = anyio.Event()
        self._use = anyio.Event()

    # -- clients -------------------------------------------------------------------

    def connect(self, listener: Listener) -> Client:
        """A new client behind a connection."""
        self._client_number += 1
        client = Client(self, listener, self._client_number)
        self.clients[client] = None
        self.note_use()
        return client

    def forget(self, client: Client) -> None:
        """A client's connection ended."""
        self.clients.pop(client, None)
        self.note_use()
        if not self.clients:
            self._deserted.set()

    @property
    def in_use(self) -> bool:
        """Whether somebody is connected, or a session would be lost with the daemon."""
        return bool(self.clients) or any(
            host.meant_for_memory or host.in_memory for host in self._hosts.values()
        )

    def note_use(self) -> None:
        """What `in_use` says, or what follows from it, may be another now."""
        self._use.set()
        self._use = anyio.Event()

    async def use_changed(self) -> None:
        """Until the next `note_use`."""
        await self._use.wait()

    def _is_ready(self, host: Host) -> None:
        self._ready.append(host)

    def run_ready(self) -> None:
        """Serve what a chunk of requests left for sessions in memory."""
        ready, self._ready = self._ready, []
        for host in ready:
            host.run_ready()

    # -- sessions ------------------------------------------------------------------

    def host(self, session_id: str) -> Host:
        """The host of a session, opened on demand. Raises Overloaded, Draining."""
        found = self._hosts.get(session_id)
        if found is not None:
            return found
        return self._start(session_id, lambda: self.store.open(session_id))

    def find(self, session_id: str) -> Host | None:
        """The host of a session if it is open or about to be."""
        return self._hosts.get(session_id)

    def create(self, header: Header, persist: Persist) -> bool:
        """Let the session's host create it, or open it when the file is there.

        `host.opened.created` will say which. False when it is open already, or somebody
        else is about to create it.
        """

        def load() -> Opened:
            try:
                return self.store.create(header, persist)
            except SessionExists:
                return self.store.open(header.id)

        host = self._hosts.get(header.id)
        if host is None:
            host = self._start(header.id, load, in_memory=persist == "never")
        return host.create_instead(load)

    def _start(
        self, session_id: str, load: Callable[[], Opened], *, in_memory: bool = False
    ) -> Host:
        if self.draining:
            raise Draining("the daemon is stopping", retry_after_ms=RETRY_AFTER_MS)
        self._make_room(in_memory=in_memory)
        host = Host(
            session_id, load, self.environment, on_ready=self._is_ready, writers=self._writers
        )
        host.meant_for_memory = in_memory
        self._hosts[session_id] = host
        self._tasks.start_soon(self._serve, host, self._closing.get(session_id))
        return host

    async def _serve(self, host: Host, predecessor: anyio.Event | None) -> None:
        """Run a host to its end, once the one before it has let go of the file."""
        if predecessor is not None:
            await predecessor.wait()
        await host.run()
        if self._hosts.get(host.session_id) is host:
            del self._hosts[host.session_id]
            self.note_use()
        if host.is_open:
            closed = self._closing.setdefault(host.session_id, anyio.Event())
            try:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self.store.close_session, host.opened)
            except Exception as bug:  # noqa: BLE001 - one session's end must not be the daemon's
                self.environment.report_bug(f"closing {host.session_id}", bug)
            finally:
                if self._closing.get(host.session_id) is closed:
                    del self._closing[host.session_id]
                closed.set()

    def _make_room(self, *, in_memory: bool) -> None:
        same = [host for host in self._hosts.values() if host.meant_for_memory == in_memory]
        limit = self.bounds.memory_sessions if in_memory else self.bounds.open_sessions
        if len(same) < limit:
            return
        idle = [host for host in same if host.can_unload]
        if not idle:
            raise Overloaded(
                "as many sessions are open as may be, and all are in use",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )
        self.unload(min(idle, key=lambda host: host.last_used))

    def unload(self, host: Host) -> None:
        """Let go of an idle session; a later request opens it again."""
        assert host.can_unload
        del self._hosts[host.session_id]
        self._closing[host.session_id] = anyio.Event()
        host.stop()

    def unload_idle(self) -> None:
        """Let go of every session that nobody has used for a while."""
        before = self.environment.monotonic() - self.bounds.idle_session_seconds
        for host in list(self._hosts.values()):
            if host.can_unload and host.last_used < before:
                self.unload(host)

    def unload_unused(self, host: Host) -> None:
        """Let go of a session that its last user has closed."""
        if host.can_unload and self._hosts.get(host.session_id) is host:
            self.unload(host)

    # -- work that is no single session's --------------------------------------------

    def work(self, ticket: Ticket, job: Callable[[], Awaitable[Any]]) -> None:
        """Answer a request from a task that ends with the asker's connection."""
        answer_later(ticket, job, self.environment)

    async def info(self, session_id: str) -> SessionInfo:
        """What a session is, once it is open."""
        return (await self.host(session_id).ready()).whole()

    async def identify(self, path: Path) -> str:
        """The session id of a file."""
        return await to_thread.run_sync(self.store.identify, path)

    async def find_entry(self, entry_id: str) -> str | None:
        """A session that has the entry: an open one, else the first file that does."""
        for host in self._open_hosts():
            if entry_id in host.opened.session.ids:
                return host.session_id
        # The file of an open session may hold what is not durable yet: its index decides.
        known = {host.session_id for host in self._open_hosts()}
        return await to_thread.run_sync(self.store.find_entry, entry_id, known)

    async def list(self, *, drafts: bool) -> Listing:
        """Every session, in no order."""
        live = {host.session_id: host.opened.info() for host in self._open_hosts()}
        listing = await to_thread.run_sync(lambda: self.store.list(live.get, drafts=drafts))
        listed = {info.id for info in listing.sessions}
        for host in self._open_hosts():
            if host.in_memory and host.session_id not in listed:
                listing.sessions.append(host.opened.info())
        self._count_revision(listing, drafts=drafts)
        return listing

    def _count_revision(self, listing: Listing, *, drafts: bool) -> None:
        """The revision grows when a list shows something else than the last one did."""
        shown = hash(frozenset((info.id, info.seq, info.updated_at) for info in listing.sessions))
        if self._shown.get(drafts) != shown:
            self._shown[drafts] = shown
            self.revision += 1

    # -- the end -------------------------------------------------------------------

    async def drain(self) -> None:
        """Serve what was asked, close every session; nothing new is taken."""
        self.draining = True
        hosts = list(self._hosts.values())
        for host in hosts:
            host.stop()
        for host in hosts:
            await host.ended.wait()
        for closing in list(self._closing.values()):
            await closing.wait()

    async def deserted(self) -> None:
        """Until the last client is gone."""
        while self.clients:
            self._deserted = anyio.Event()
            await self._deserted.wait()

    def _open_hosts(self) -> Iterator[Host]:
        return (host for host in self._hosts.values() if host.is_open)

    def statistics(self) -> ServiceStatistics:
        """How busy it is."""
        hosts = list(self._open_hosts())
        return ServiceStatistics(
            sessions_open=len(hosts),
            sessions_in_memory=sum(host.in_memory for host in hosts),
            clients=len(self.clients),
            requests_waiting=sum(host.waiting for host in self._hosts.values()),
            draining=self.draining,
            sessions={host.session_id: host.statistics() for host in hosts},
        )


def newest_first(listing: Listing) -> list[SessionInfo]:
    """The sessions of a listing, the latest first."""
    return sorted(listing.sessions, key=lambda info: (info.updated_at, info.id), reverse=True)
