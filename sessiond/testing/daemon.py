"""A daemon inside a test: everything but the process, on a clock that stands still.

`running_daemon(home)` runs a real store, service and dispatcher behind real socket pairs; ids are
counted (e1, e2, …), so the answers are identical in every run.

    async with running_daemon(tmp_path) as daemon:
        async with daemon.connect() as wire:
            answer = await wire.call("session/create", cwd="/my/project")
"""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import structs

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import DEFAULT_PROFILE, Layout
from sessiond.methods import METHODS
from sessiond.methods._shared.access import allow
from sessiond.model.ids import as_uuid
from sessiond.rpc.dispatch import Dispatcher
from sessiond.rpc.framing import Framing
from sessiond.schema import openrpc_bytes
from sessiond.service.client import Client, connect
from sessiond.service.environment import NO_KEYS, Environment
from sessiond.service.external.watcher import Unwatched, Watcher
from sessiond.service.files.store import FileStore
from sessiond.service.service import Service
from sessiond.service.shutdown import end_service
from sessiond.service.store.session_store import SessionStore
from sessiond.state.keys import KeySettings
from sessiond.testing.wire import Refusal, Wire
from sessiond.transports.base import SocketPort
from sessiond.transports.serving import serve_connection

__all__ = [
    "NOW",
    "Daemon",
    "Keep",
    "Refusal",
    "Wire",
    "running_daemon",
    "standing_environment",
    "unscanned_daemon",
]

Keep = Callable[[FileStore], SessionStore]
"""Makes the store of a daemon of the store of its machine's files."""

NOW: Final = "2026-01-15T10:30:00.000Z"


def standing_environment(bugs: list[BaseException] | None = None) -> Environment:
    """Return an environment whose clock stands still and whose ids are counted.

    `report_bug` appends the reported errors to `bugs`.
    """
    found: list[BaseException] = [] if bugs is None else bugs
    entries, sessions, epochs, stamps = count(1), count(0), count(1), count(0)
    leases, uuids = count(1), count(1)

    def report_bug(_work: str, error: BaseException) -> str:
        found.append(error)
        return f"incident-{len(found)}"

    return Environment(
        now=lambda: NOW,
        monotonic=lambda: 0.0,
        new_entry_id=lambda: f"e{next(entries)}",
        new_entry_uuid=lambda: as_uuid(f"{next(uuids):032x}"),
        # The first id goes to the daemon itself, so sessions count from 1.
        new_session_id=lambda: f"session-{next(sessions)}",
        new_epoch=lambda: f"epoch-{next(epochs)}",
        new_lease_id=lambda: f"lease-{next(leases)}",
        file_stamp=lambda: f"2026-01-15T10-30-00-{next(stamps):06d}",
        describe=openrpc_bytes,
        report_bug=report_bug,
    )


class Daemon:
    """A running daemon. `bugs` holds the reported bugs; a test removes those that it provoked."""

    def __init__(
        self,
        service: Service,
        store: FileStore,
        dispatcher: Dispatcher[Client],
        tasks: TaskGroup,
        bugs: list[BaseException],
    ) -> None:
        self.service = service
        self.store = store
        self.dispatcher = dispatcher
        self.bugs = bugs
        self.ended = anyio.Event()
        self._tasks = tasks

    @property
    def clients(self) -> list[Client]:
        """Clients of the connections."""
        return [client for client in self.service.clients if isinstance(client, Client)]

    def open_socket(self) -> socket.socket:
        """Return the client end of a new connection, for a test that needs the bare bytes."""
        ours, theirs = socket.socketpair()
        port = SocketPort(theirs, "test")
        service = self.service
        self._tasks.start_soon(
            serve_connection, port, self.dispatcher, partial(connect, service), service.byte_budget
        )
        return ours

    @asynccontextmanager
    async def connect(self, framing: Framing = Framing.NDJSON) -> AsyncGenerator[Wire]:
        """Yield a client on a new connection; close it at the end."""
        wire = Wire(self.open_socket(), framing)
        try:
            yield wire
        finally:
            wire.close()

    async def end(self) -> None:
        """Drain and end as SIGTERM does; another daemon can open the files then."""
        if not self.ended.is_set():
            await end_service(self.service)
            self.ended.set()


def _noting(environment: Environment, bugs: list[BaseException]) -> Environment:
    """Return an environment that also notes each reported bug in `bugs`."""
    report = environment.report_bug

    def report_bug(work: str, error: BaseException) -> str:
        bugs.append(error)
        return report(work, error)

    return structs.replace(environment, report_bug=report_bug)


@asynccontextmanager
async def running_daemon(  # noqa: PLR0913 - what a test may choose
    home: Path,
    *,
    environment: Environment | None = None,
    files: Files | None = None,
    profile: str = DEFAULT_PROFILE,
    watching: Watcher | None = None,
    keep: Keep | None = None,
    bugs: list[BaseException] | None = None,
) -> AsyncGenerator[Daemon]:
    """Yield a daemon whose first scan is complete; else as `unscanned_daemon`.

    Faults of a test then hit only calls of that test.
    """
    async with unscanned_daemon(
        home,
        environment=environment,
        files=files,
        profile=profile,
        watching=watching,
        keep=keep,
        bugs=bugs,
    ) as daemon:
        daemon.service.live_catalog.scan_now()
        await daemon.service.live_catalog.complete.wait()
        yield daemon


@asynccontextmanager
async def unscanned_daemon(  # noqa: PLR0913 - what a test may choose
    home: Path,
    *,
    environment: Environment | None = None,
    files: Files | None = None,
    profile: str = DEFAULT_PROFILE,
    watching: Watcher | None = None,
    keep: Keep | None = None,
    bugs: list[BaseException] | None = None,
) -> AsyncGenerator[Daemon]:
    """Yield a daemon on the files of `home`, drained at the end. Raises the first bug it met.

    With `files` from a test, only `watching` reports changes to the daemon. `keep` puts another store
    before the files, and `bugs` another list in the place of the daemon's own.
    """
    bugs = [] if bugs is None else bugs
    environment = _noting(environment or standing_environment(), bugs)
    layout = Layout(home, profile)
    if environment.key_settings() is NO_KEYS:
        keys = KeySettings(home.with_name(f"{home.name}.key"))
        environment = structs.replace(environment, key_settings=lambda: keys)
    if files is not None and watching is None:
        # Only the test knows of foreign writers on a disk in memory.
        watching = Unwatched()
    store = await to_thread.run_sync(_store, layout, files, environment, watching)
    kept: SessionStore = store if keep is None else await to_thread.run_sync(keep, store)
    try:
        async with anyio.create_task_group() as tasks:
            stop = anyio.Event()
            service = Service(
                kept,
                store.profile.files,
                environment,
                tasks,
                profile=profile,
                request_stop=stop.set,
            )
            daemon = Daemon(service, store, _dispatcher(environment), tasks, bugs)
            tasks.start_soon(_end_when_asked, daemon, stop)
            yield daemon
            await daemon.end()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(kept.close)
    if bugs:
        raise bugs[0]


def _store(
    layout: Layout, files: Files | None, environment: Environment, watching: Watcher | None
) -> FileStore:
    if files is not None:
        # The catalog is a file of SQLite, on the real disk wherever the sessions are.
        layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = files or Files()
    layout.make_folders(files)
    return FileStore(layout, files, environment, watching)


def _dispatcher(environment: Environment) -> Dispatcher[Client]:
    def log_exception(_incident_id: str, method: str, error: Exception) -> None:
        environment.report_bug(method, error)

    return Dispatcher(METHODS, log_exception=log_exception, allow=allow)


async def _end_when_asked(daemon: Daemon, stop: anyio.Event) -> None:
    await stop.wait()
    await daemon.end()
