"""States: the state store of a profile as connections use it.

Rule 1: a read is answered at once from memory, unless a call before it waits, or a value's time is
over: such a read waits in the line of its namespace.

Rule 2: a value whose time is over is deleted durably before a read answers that it is gone. So a clock
that is set back brings no value back: a value that was seen to be gone stays gone, and a value that
was not yet gone lives until the clock reaches its time. If the disk refuses, the value is gone for
the readers of this daemon, and the log says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from sessiond.errors import StorageError, as_outage
from sessiond.limits import STATE_LOOK_SECONDS
from sessiond.model.deferred import DEFERRED
from sessiond.service.actor.background import run_in_background
from sessiond.service.environment import Environment
from sessiond.service.log.out_of_sight import stale_meta
from sessiond.service.ports import Listener, Ticket
from sessiond.service.states.feed import StateFeed
from sessiond.service.states.writer import Act, Later, NamespaceWriter, OwnOutcome
from sessiond.state.document import Document
from sessiond.state.documents import Documents
from sessiond.state.folder import Aside

# The shortest pause between two looks, so that a disk that refuses is not tried without an end.
_PAUSE_SECONDS = 1.0


class StateStatistics(Struct, frozen=True):
    """Counters of the state store; `writes` counts the files that were replaced."""

    namespaces: int
    keys: int
    bytes: int
    writes: int


class AllDocuments(Struct, frozen=True):
    """All documents, as they are or as they were when the store ceased to answer."""

    documents: Sequence[Document]
    stale_since: str | None
    """Time from which on the store has not answered; None if the documents are as they are."""


class States:
    """All namespaces, with a writer for each one that calls wait for."""

    def __init__(self, documents: Documents, environment: Environment, tasks: TaskGroup) -> None:
        self.documents = documents
        self.feed = StateFeed()
        self._environment = environment
        self._tasks = tasks
        self._writers: dict[str, NamespaceWriter] = {}
        self._wake = anyio.Event()
        self._writes = 0
        documents.watch(lambda: bool(self.feed), self._noticed)

    # -- calls -------------------------------------------------------------------------

    def change(self, ticket: Ticket, namespace: str, act: Act) -> Any:
        """Queue a change. Raises Overloaded."""
        return self._writer(namespace).put(act, ticket, reads=False)

    def ask(self, ticket: Ticket, namespace: str, question: Callable[[Document], Any]) -> Any:
        """Answer from a namespace, at once or in the namespace's line. Raises Overloaded."""
        document = self._at_once(namespace)
        if document is not None:
            answer = question(document)
            if not isinstance(answer, Later):
                return answer
            run_in_background(ticket, answer.job, self._environment)
            return DEFERRED
        return self._writer(namespace).put(question, ticket, reads=True)

    def _at_once(self, namespace: str) -> Document | None:
        documents = self.documents
        if documents.is_shared or namespace in self._writers or not documents.is_ready(namespace):
            return None
        document = documents.by_namespace.get(namespace)
        if document is None:
            return Document(namespace)
        return None if document.is_due(self.now_ms) else document

    def submit(self, namespace: str, act: Act) -> OwnOutcome:
        """Queue a change of the daemon itself."""
        return self._writer(namespace).carry_out(act, reads=False)

    async def carry_out(self, namespace: str, act: Act) -> Any:
        """Return the result of a change that the daemon makes itself. Raises what `act` raises."""
        return await self.submit(namespace, act).get()

    async def look(self, ticket: Ticket, namespace: str, act: Act) -> Any:
        """Return the result of a read that the daemon makes itself for a request. Raises what `act` raises.

        The answer to the request gets a sign if the result may be old.
        """
        outcome = self._writer(namespace).carry_out(act, reads=True)
        result = await outcome.get()
        _sign(ticket, outcome.stale_since)
        return result

    async def all_documents(self) -> AllDocuments:
        """Return all documents, once the calls before this one are served. Raises StorageError."""
        if not self.documents.is_ready():
            report = self._environment.report_trouble
            await to_thread.run_sync(self.documents.recover, None, report)
        self._sweep()
        since = await self._take_over()
        for passed in [writer.pass_through() for writer in self._writers.values()]:
            await passed.get()
            since = since or passed.stale_since
        by_namespace = self.documents.by_namespace
        documents = [by_namespace[namespace] for namespace in sorted(by_namespace)]
        return AllDocuments(documents, since)

    def list_all(self, ticket: Ticket, show: Callable[[AllDocuments], Awaitable[Any]]) -> None:
        """Answer with what `show` makes of all documents, and with a sign if they may be old."""

        async def job() -> Any:
            found = await self.all_documents()
            _sign(ticket, found.stale_since)
            return await show(found)

        run_in_background(ticket, job, self._environment)

    def subscribe(self, listener: Listener, namespace: str | None) -> None:
        """Tell a connection of changes of a namespace, or of all, from now on. Raises Overloaded."""
        self.feed.add(listener, namespace)
        self.documents.watched()

    def _noticed(self) -> None:
        """Take over what other daemons have written, in a task of its own."""
        self._tasks.start_soon(self._take_over)

    async def _take_over(self) -> str | None:
        """Have each namespace that other daemons have changed looked at by its writer.

        Returns the time from which on the store has not answered; None if the store answers.
        """
        now = self._environment.now()
        try:
            with as_outage():
                behind = await to_thread.run_sync(self.documents.behind, now)
        except StorageError:
            # Changes say that the database is away; reads show what is known.
            return self.documents.stale_since or now
        for namespace in behind:
            self._writer(namespace).pass_through()
        return None

    async def aside(self) -> list[Aside]:
        """Return the files that were put aside. Raises StorageError."""
        return await to_thread.run_sync(self.documents.aside)

    async def drain(self) -> None:
        """Wait until every call is answered. No further call may come."""
        for writer in list(self._writers.values()):
            await writer.idle()

    @property
    def now_ms(self) -> int:
        """The time in milliseconds since 1970."""
        return self.documents.ms_at(self._environment.now())

    def statistics(self) -> StateStatistics:
        """Return the counters."""
        known = self.documents.by_namespace.values()
        return StateStatistics(
            namespaces=len(known),
            keys=sum(len(document.records) for document in known),
            bytes=self.documents.size,
            writes=self._writes,
        )

    # -- the writers -------------------------------------------------------------------

    def _writer(self, namespace: str) -> NamespaceWriter:
        writer = self._writers.get(namespace)
        if writer is None:
            writer = NamespaceWriter(
                namespace, self.documents, self._environment, self.feed, callbacks=self
            )
            self._writers[namespace] = writer
        return writer

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a writer in a task of the daemon."""
        self._tasks.start_soon(run)

    def committed(self, *, expiry_changed: bool) -> None:
        """Count a write, and look when the next value expires if that has changed."""
        self._writes += 1
        if expiry_changed:
            self._wake.set()

    def taken(self, *, expiry_changed: bool) -> None:
        """Look when the next value expires if another daemon has changed that."""
        if expiry_changed:
            self._wake.set()

    def ended(self, namespace: str) -> None:
        """Drop a writer in whose line no call waits."""
        del self._writers[namespace]

    # -- values whose time is over -----------------------------------------------------

    async def run(self) -> None:
        """Delete values whose time is over, for as long as the daemon runs."""
        while True:
            with anyio.move_on_after(self._pause()):
                await self._wake.wait()
            self._wake = anyio.Event()
            self._sweep()

    def _pause(self) -> float | None:
        """Return how long nothing expires; None without a value that ever expires."""
        times = [document.next_expiry for document in self.documents.by_namespace.values()]
        first = min((one for one in times if one is not None), default=None)
        if first is None:
            return None
        left = (first - self.now_ms) / 1000
        return min(max(left, _PAUSE_SECONDS), STATE_LOOK_SECONDS)

    def _sweep(self) -> None:
        now = self.now_ms
        for document in list(self.documents.by_namespace.values()):
            if document.is_due(now):
                # The draft that the writer makes drops the expired values.
                self._writer(document.namespace).pass_through()


def _sign(ticket: Ticket, stale_since: str | None) -> None:
    """Note with an answer from which time on the store has not answered, unless the store was asked."""
    if stale_since is not None:
        ticket.result_meta = stale_meta(stale_since)
