"""Writer of one namespace: the calls in their order, and the writes that make them durable.

Rule 1: the calls that wait while a write is on the disk share the next write. A read that waits
among them sees the writes before it, and none behind it.

Rule 2: an answer, a refusal too, is sent once everything that it shows is durable.

Rule 3: where other daemons write to the namespace, too, a batch begins with a look at what they wrote,
and a write that another daemon was faster than is staged again behind one more look.

Rule 4: a write that failed has changed nothing; the reads that waited with it are answered from the
values before it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

from anyio import CancelScope, Event, to_thread
from msgspec import Struct

from sessiond.errors import (
    Cancelled,
    Internal,
    Overloaded,
    SessiondError,
    StorageError,
    TooLarge,
    exhausted,
)
from sessiond.limits import RETRY_AFTER_MS, STATE_CALLS_MAX, STATE_NAMESPACES_MAX
from sessiond.model.deferred import DEFERRED
from sessiond.service.actor.background import run_in_background
from sessiond.service.environment import Environment
from sessiond.service.log.out_of_sight import stale_meta
from sessiond.service.ports import Ticket
from sessiond.service.states.feed import StateFeed
from sessiond.state.document import Document, Draft
from sessiond.state.documents import Documents

T = TypeVar("T")
Act = Callable[[Draft], Any]


class Later(Struct, frozen=True):
    """Outcome of a read: a job that makes the answer, once what the read saw is durable."""

    job: Callable[[], Awaitable[Any]]


class OwnOutcome:
    """Outcome of a call of the daemon itself, which has no ticket."""

    def __init__(self) -> None:
        self.stale_since: str | None = None
        """Time from which on the store had not answered; None if the store was asked."""
        self._done = Event()
        self._value: Any = None

    def set(self, value: Any) -> None:
        """Set the result, or the error in its place."""
        self._value = value
        self._done.set()

    async def get(self) -> Any:
        """Wait for the result, and return it. Raises the error that the call ended with."""
        await self._done.wait()
        if isinstance(self._value, SessiondError):
            raise self._value
        return self._value


class _Waiting(Struct, eq=False):
    """Call in line."""

    act: Act
    owner: Ticket | OwnOutcome
    reads: bool


class WriterCallbacks(Protocol):
    """The store as a writer sees it."""

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a function in a task of the daemon."""
        ...

    def committed(self, *, expiry_changed: bool) -> None:
        """Take note of a write, which may have changed when the first value expires."""
        ...

    def taken(self, *, expiry_changed: bool) -> None:
        """Take note of a write of another daemon, likewise."""
        ...

    def ended(self, namespace: str) -> None:
        """Drop a writer in whose line no call waits."""
        ...


class NamespaceWriter:
    """The line of one namespace."""

    def __init__(
        self,
        namespace: str,
        documents: Documents,
        environment: Environment,
        feed: StateFeed,
        callbacks: WriterCallbacks,
    ) -> None:
        self._namespace = namespace
        self._documents = documents
        self._environment = environment
        self._feed = feed
        self._callbacks = callbacks
        self._line: list[_Waiting] = []
        self._idle = Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """True if no call waits or is being served."""
        return self._idle.is_set()

    async def idle(self) -> None:
        """Wait until every call is answered."""
        await self._idle.wait()

    def put(self, act: Act, ticket: Ticket, *, reads: bool) -> Any:
        """Queue a call; its answer comes later. Raises Overloaded."""
        if len(self._line) >= STATE_CALLS_MAX:
            raise Overloaded(
                "too many calls wait for this namespace",
                limit=STATE_CALLS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        waiting = _Waiting(act, ticket, reads)
        self._append(waiting)
        ticket.defer(lambda: self._give_up(waiting, ticket))
        return DEFERRED

    def carry_out(self, act: Act, *, reads: bool) -> OwnOutcome:
        """Queue a call of the daemon itself."""
        outcome = OwnOutcome()
        self._append(_Waiting(act, outcome, reads))
        return outcome

    def pass_through(self) -> OwnOutcome:
        """Queue a read of the daemon itself, whose end is that of every call before it."""
        return self.carry_out(lambda _draft: None, reads=True)

    def _append(self, waiting: _Waiting) -> None:
        self._line.append(waiting)
        if self.is_idle:
            self._idle = Event()
            self._callbacks.start(self._run)

    def _give_up(self, waiting: _Waiting, ticket: Ticket) -> None:
        """Cancel a call that no write has taken yet."""
        if waiting in self._line:
            self._line.remove(waiting)
            ticket.fail(Cancelled("cancelled while it waited for its turn"))

    async def _run(self) -> None:
        try:
            while self._line:
                batch, self._line = self._line, []
                outcomes = await self._serve(batch)
                self._settle(batch, outcomes)
        finally:
            self._idle.set()
            self._callbacks.ended(self._namespace)

    async def _serve(self, batch: list[_Waiting]) -> list[Any]:
        """Return the result of each call, or the error in its place."""
        try:
            if not self._documents.is_ready(self._namespace):
                await self._in_thread(self._documents.recover, self._namespace, self._report)
        except Exception as error:  # noqa: BLE001 - each call gets the error
            return [self._refusal(error)] * len(batch)
        changes = not all(one.reads for one in batch)
        try:
            while True:
                if self._documents.is_shared:
                    try:
                        await self._look(changes=changes)
                    except StorageError as away:
                        return self._stale(batch, away)
                draft = self._draft()
                outcomes = [self._stage(draft, one) for one in batch]
                if not (draft.changes or draft.is_rewritten):
                    return outcomes
                if await self._in_thread(self._documents.write, draft):
                    break
        except Exception as error:  # noqa: BLE001 - each call gets the error
            return self._refuse(batch, self._refusal(error))
        expiry = self._documents.next_expiry(self._namespace)
        self._documents.commit(draft)
        changed = expiry != self._documents.next_expiry(self._namespace)
        self._callbacks.committed(expiry_changed=changed)
        self._feed.tell(self._namespace, draft.changes, self._documents.committed_revision)
        return outcomes

    async def _look(self, *, changes: bool) -> None:
        """Take over what other daemons wrote, and tell the watchers. Raises StorageError."""
        documents, namespace = self._documents, self._namespace
        expiry = documents.next_expiry(namespace)
        look = partial(documents.look, changes=changes)
        found = await self._in_thread(look, namespace, self._environment.now())
        if found:
            changed = expiry != documents.next_expiry(namespace)
            self._callbacks.taken(expiry_changed=changed)
            self._feed.tell(namespace, found, documents.committed_revision)

    async def _in_thread(self, function: Callable[..., T], *args: Any) -> T:
        # A cancelled caller must not leave a half-known write.
        done: list[T] = []
        with CancelScope(shield=True):
            done.append(await to_thread.run_sync(function, *args))
        return done[0]

    def _draft(self) -> Draft:
        documents = self._documents
        document = documents.by_namespace.get(self._namespace) or Document(self._namespace)
        moment = documents.moment(self._environment.now(), self._namespace)
        return Draft(document, moment, bytes_max=documents.bytes_max(document))

    def _stage(self, draft: Draft, waiting: _Waiting) -> Any:
        try:
            if not waiting.reads:
                self._require_room()
            return waiting.act(draft)
        except Exception as error:  # noqa: BLE001 - one call's bug must not end other calls
            return self._refusal(error)

    def _require_room(self) -> None:
        known = self._documents.by_namespace
        if self._namespace not in known and len(known) >= STATE_NAMESPACES_MAX:
            text = "the store has as many namespaces as it may have: use one of them"
            raise TooLarge(text, limit=STATE_NAMESPACES_MAX)

    def _refuse(self, batch: list[_Waiting], failure: SessiondError) -> list[Any]:
        """Return the outcomes after a failed write: reads succeed, a call that changes nothing too."""
        self._environment.report_trouble(f"the state store was not written: {failure}")
        outcomes: list[Any] = []
        for waiting in batch:
            draft = self._draft()
            expired = len(draft.changes)
            outcome = self._stage(draft, waiting)
            changed = draft.is_rewritten or len(draft.changes) > expired
            outcomes.append(failure if changed else outcome)
        return outcomes

    def _stale(self, batch: list[_Waiting], away: StorageError) -> list[Any]:
        """Return the outcomes while the store does not answer: reads as they are known, with a sign.

        A refusal, or a change that has nothing to store, rests on what is known here: in the store it may
        be otherwise.
        """
        since = self._documents.stale_since or self._environment.now()
        meta = stale_meta(since)
        outcomes = self._refuse(batch, away)
        for waiting in batch:
            if isinstance(waiting.owner, OwnOutcome):
                waiting.owner.stale_since = since
            else:
                waiting.owner.result_meta = meta
        return [
            one if waiting.reads and not isinstance(one, SessiondError) else away
            for waiting, one in zip(batch, outcomes, strict=True)
        ]

    def _refusal(self, error: Exception) -> SessiondError:
        if isinstance(error, SessiondError):
            return error.with_traceback(None)
        short = exhausted(error, RETRY_AFTER_MS)
        if short is not None:
            return short
        incident_id = self._environment.report_bug("state store", error)
        return Internal("a bug in sessiond", incident_id=incident_id)

    def _report(self, text: str) -> None:
        self._environment.report_trouble(text)

    def _settle(self, batch: list[_Waiting], outcomes: list[Any]) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            owner = waiting.owner
            if isinstance(owner, OwnOutcome):
                owner.set(outcome)
            elif isinstance(outcome, SessiondError):
                owner.fail(outcome)
            elif isinstance(outcome, Later):
                run_in_background(owner, outcome.job, self._environment)
            else:
                owner.answer(outcome)
        for waiting in batch:
            if not isinstance(waiting.owner, OwnOutcome):
                waiting.owner.flush()
