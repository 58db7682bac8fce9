"""Running daemon: its service, its transports, and its end.

The order of the end keeps the promises: every client is told, then the received requests are
served and made durable, then every answer is sent, then the files are closed and the socket is
removed. A client that connects meanwhile is told that the daemon stops.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup, TaskStatus
from msgspec import Struct, structs

from sessiond.config.configuration import Sources
from sessiond.daemon.environment import real_environment
from sessiond.daemon.idle import wait_unused
from sessiond.daemon.reload import Tuning
from sessiond.daemon.retention_timer import keep_index, keep_retaining
from sessiond.daemon.secret_keys import key_settings
from sessiond.daemon.stores import store_of
from sessiond.daemon.summarizer_command import SummarizerCommand
from sessiond.errors import StorageError, as_outage
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.lock import DaemonLock
from sessiond.methods import METHODS
from sessiond.methods._shared.access import allow
from sessiond.rpc.dispatch import Dispatcher
from sessiond.service.client import connect
from sessiond.service.files.startup_cleanup import (
    remove_half_made,
    remove_stray_indexes,
    settle_drafts,
    settle_notes,
)
from sessiond.service.files.store import FileStore
from sessiond.service.service import Service
from sessiond.service.shutdown import end_service
from sessiond.service.store.session_store import SessionStore
from sessiond.transports.admission import Admission
from sessiond.transports.base import Port
from sessiond.transports.listening import Listening
from sessiond.transports.serving import serve_connection
from sessiond.transports.stdio import serve_stdio
from sessiond.transports.unix import serve_unix

_IDLE_LOOK_SECONDS = 30.0
# Requests make many short-lived objects and few cycles; a search for cycles at the default rate
# costs a third of an append.
_GC_THRESHOLDS = (50_000, 20, 50)


class DaemonOptions(Struct, frozen=True):
    """Options of the command line."""

    layout: Layout
    socket: Path | None
    """Path to listen on; None = only `stdio`."""
    stdio: bool
    sources: Sources
    told: int | None = None
    """Descriptor through which the starter learns that clients can connect."""


class Daemon:
    """Parts of one daemon, and the order in which they start and end."""

    def __init__(
        self,
        options: DaemonOptions,
        tuning: Tuning,
        files: Files,
        listener: Callable[[], Listening] | None,
        lock: DaemonLock,
    ) -> None:
        self._options = options
        self._lock = lock
        self._tuning = tuning
        self._layout = options.layout
        self._files = files
        self._listener = listener
        self._log = logging.getLogger("sessiond")
        self._stop = anyio.Event()
        self._service: Service | None = None
        """The service; None until the profile is ready."""

    async def serve(self) -> None:
        """Run everything, from the first file to the last answer."""
        async with anyio.create_task_group() as tasks:
            # First of all, so that a signal can end the start too.
            await tasks.start(self._watch_signals)
            await self._serve_profile()
            tasks.cancel_scope.cancel()

    async def _serve_profile(self) -> None:
        compaction = self._tuning.current.compaction.settings()
        summarizer = SummarizerCommand(lambda: self._tuning.current.summarizer)
        environment = structs.replace(
            real_environment(self._report_bug, compaction, summarizer),
            key_settings=lambda: key_settings(self._tuning.current.secrets, self._layout),
        )
        files = FileStore(self._layout, self._files, environment)
        store: SessionStore = files
        try:
            await to_thread.run_sync(files.profile.roots.configure, *self._tuning.root_settings)
            await to_thread.run_sync(remove_half_made, files)
            await to_thread.run_sync(settle_notes, files)
            await to_thread.run_sync(remove_stray_indexes, files)
            await to_thread.run_sync(settle_drafts, files, self._stop.is_set)
            store = await to_thread.run_sync(
                store_of, files, self._tuning.current, self._layout.profile
            )
            if self._stop.is_set():
                self._log.info("stopped before it served")
                return
            async with anyio.create_task_group() as tasks:
                service = Service(
                    store,
                    files.profile.files,
                    environment,
                    tasks,
                    profile=self._layout.profile,
                    request_stop=self._stop.set,
                )
                self._tuning.govern(service)
                self._service = service
                await self._serve(service, tasks)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(store.close)

    async def _serve(self, service: Service, tasks: TaskGroup) -> None:
        dispatcher = Dispatcher(
            METHODS,
            log_exception=self._log_exception,
            allow=allow,
            new_incident_id=_new_incident_id,
        )
        gc.enable()
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)

        async def connection(port: Port) -> None:
            await serve_connection(port, dispatcher, partial(connect, service), service.byte_budget)

        async def stdio() -> None:
            await serve_stdio(connection)
            self._stop.set()

        tasks.start_soon(_unload_idle, service)
        if self._listener is not None:
            admission = Admission(service.byte_budget, lambda: service.bounds)
            at_home = partial(serve_unix, still=self._has_profile)
            await tasks.start(at_home, self._listener, connection, admission)
        if self._options.stdio:
            tasks.start_soon(stdio)
        tasks.start_soon(self._end_unused, service)
        tasks.start_soon(keep_retaining, service, self._tuning)
        tasks.start_soon(keep_index, service)
        where = None if self._options.socket is None else str(self._options.socket)
        self._log.info("serving", extra={"socket": where, "stdio": self._options.stdio})
        self._tell_starter()
        await self._stop.wait()
        await end_service(service)
        self._log.info("stopped")

    def _has_profile(self) -> bool:
        """Return whether the profile is still there, and this daemon's; if not, stop. Called in a worker thread."""
        is_there = self._lock.is_there()
        if not is_there:
            self._log.warning("ends: its profile was removed, or made anew")
            from_thread.run_sync(self._stop.set)
        return is_there

    def _tell_starter(self) -> None:
        if self._options.told is not None:
            # The daemon goes on without a starter that gave up waiting.
            with suppress(BrokenPipeError):
                os.write(self._options.told, b"1")
            os.close(self._options.told)

    async def _watch_signals(self, *, task_status: TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGHUP:
                    try:
                        with as_outage():
                            fresh = await to_thread.run_sync(self._tuning.read_again)
                    except StorageError as error:
                        self._log.error("configuration kept", extra={"reason": str(error)})
                        continue
                    if fresh is not None:
                        self._tuning.take(fresh, self._service)
                elif self._stop.is_set():
                    # A second signal means: do not wait. Acknowledged entries are on disk.
                    self._log.warning("ended at once by a second signal")
                    os._exit(1)
                else:
                    self._stop.set()
                    self._log.info("ends: a signal", extra={"signal": signal.Signals(number).name})

    async def _end_unused(self, service: Service) -> None:
        await wait_unused(service, lambda: self._tuning.current.idle_exit_seconds)
        self._log.info("ends: no client used it")
        self._stop.set()

    def _report_bug(self, work: str, error: BaseException) -> str:
        incident_id = _new_incident_id()
        self._log_exception(incident_id, work, error)
        return incident_id

    def _log_exception(self, incident_id: str, work: str, error: BaseException) -> None:
        # The text of an exception may quote a client's content, so only its place is logged.
        place = traceback.format_tb(error.__traceback__)
        facts = {
            "incident_id": incident_id,
            "work": work,
            "kind": type(error).__name__,
            "place": place,
        }
        self._log.error("bug", extra=facts)


async def _unload_idle(service: Service) -> None:
    while True:
        await anyio.sleep(_IDLE_LOOK_SECONDS)
        # A failed system call is tried again in the next round.
        with suppress(OSError):
            service.unload_idle()


def _new_incident_id() -> str:
    return os.urandom(8).hex()
