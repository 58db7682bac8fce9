"""Work of the daemon that waits for a summary: planned, written by a client or a command, committed.

Law 1: a run ends when no caller waits for it any more, unless it is automatic; it also ends with
its session. A run that has reached its write completes and is answered.
Law 2: a run blocks no other work: it reads in worker threads and waits for the summary in a task.
Law 3: what a run stores is checked again when the summary is there, and a run that fails stores
nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import Raw, UnsetType

from sessiond.errors import (
    Cancelled,
    Internal,
    Overloaded,
    SessiondError,
    StorageError,
    as_outage,
    exhausted,
)
from sessiond.limits import (
    CLAIM_SECONDS,
    RETRY_AFTER_MS,
    RUN_PLANS_MAX,
    RUNS_MAX,
    RUNS_PER_CONNECTION_MAX,
)
from sessiond.model.deferred import DEFERRED
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.background import run_in_background
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.store.claims import Claim
from sessiond.service.summaries.summarizers import Summarizers, Wanted
from sessiond.service.thread_pool import ThreadPool

R = TypeVar("R")
Planned = tuple[Wanted | None, Callable[[str], Awaitable[Any]]]
"""Summary that is wanted, and the function that checks the plan again and stores the summary.

None if there is nothing to summarise: then the function gets an empty summary.
"""


class Run(Generic[R]):
    """Running work: its asker, the callers that wait, its state and its result."""

    def __init__(
        self,
        actor: SessionActor,
        asker: Any,
        origin_id: Raw | UnsetType,
        *,
        automatic: bool = False,
    ) -> None:
        self.actor = actor
        self.asker = asker
        self.origin_id = origin_id
        self.automatic = automatic
        self.waiting: set[Ticket] = set()
        """Tickets that wait for the result."""
        self.committing = False
        self.given_up = False
        """True once no caller waits any more: the next caller begins another run."""
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.result: R | None = None
        self.error: SessiondError | None = None
        self._written: int | None = None

    def stop(self, error: SessiondError) -> None:
        """End the run, unless it has reached its write."""
        if not self.committing:
            self.error = error
            self.scope.cancel()

    async def begin_write(self) -> None:
        """Go on to the write, from which a run completes. Raise the cancellation of a stopped run."""
        # The run may have been stopped in the step in which the summary came.
        await checkpoint_if_cancelled()
        self.committing = True

    def tell(self, written: int) -> None:
        """Report to all callers whether the summary is written."""
        self._written = written
        for ticket in self.waiting:
            ticket.progress.report(written, 1, "summaries")

    def add(self, ticket: Ticket) -> None:
        """Let a caller wait for the result."""
        self.waiting.add(ticket)
        if self._written is not None:
            ticket.progress.report(self._written, 1, "summaries")


class SummaryRuns:
    """Runs of one daemon, a limited number at a time."""

    def __init__(self, tasks: TaskGroup, environment: Environment, writers: Summarizers) -> None:
        self.environment = environment
        self.writers = writers
        self._tasks = tasks
        # A limit, so that plans leave threads and memory to other requests.
        self._planning = ThreadPool(RUN_PLANS_MAX)
        # Claims go on while other requests have all threads.
        self._claiming = ThreadPool(RUNS_MAX)
        self.pools = (self._planning, self._claiming)
        self._runs: set[Run[Any]] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def begin(
        self,
        run: Run[R],
        work: Callable[[], Awaitable[R]],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin to work; `on_end` is called when the run has its result or its error.

        Raises Overloaded.
        """
        own = sum(one.asker is run.asker for one in self._runs)
        if own >= RUNS_PER_CONNECTION_MAX:
            raise Overloaded(
                "this connection waits for as many summaries as it may: wait for one, or send one of your own",
                limit=RUNS_PER_CONNECTION_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        if len(self._runs) >= RUNS_MAX:
            raise Overloaded(
                "the limit of summaries that are being written is reached: try again later, or send"
                " one of your own",
                limit=RUNS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        self._runs.add(run)
        self._tasks.start_soon(self._carry_out, run, work, on_end, run.actor.retain())

    def join(self, run: Run[Any], ticket: Ticket) -> Any:
        """Answer the ticket with the result of the run; return DEFERRED."""
        run.add(ticket)

        async def wait() -> Any:
            try:
                await run.done.wait()
            finally:
                self._leave(run, ticket)
            if run.error is not None:
                raise run.error
            assert run.result is not None, "a run that is done has a result or an error"
            return run.result

        def give_up() -> bool:
            # At once: a summary that has arrived must not be committed after the answer
            # "cancelled".
            if not run.committing:
                self._leave(run, ticket)
            return not run.committing

        run_in_background(ticket, wait, self.environment, give_up)
        return DEFERRED

    def have_written(
        self,
        actor: SessionActor,
        ticket: Ticket,
        plan: Callable[[], Awaitable[Planned]],
    ) -> Any:
        """Plan, have the summary written, commit it, and answer; return DEFERRED.

        Raises Overloaded, Cancelled.
        """
        ticket.client.require_here()
        run: Run[Any] = Run(actor, ticket.client, ticket.origin_id)

        async def work() -> Any:
            wanted, commit = await plan()
            summary = "" if wanted is None else await self.write(run, wanted)
            await run.begin_write()
            return await commit(summary)

        self.begin(run, work)
        return self.join(run, ticket)

    async def write(self, run: Run[Any], wanted: Wanted) -> str:
        """Return the summary that a client or the command wrote. Raise SummarizerUnavailable."""
        run.tell(0)
        summary = await self.writers.write(wanted, run.asker)
        run.tell(1)
        return summary

    async def under(self, claim: Claim, work: Callable[[], Awaitable[R]]) -> R:
        """Work under a claim that was taken, and end the claim."""
        extending = anyio.CancelScope()
        self._tasks.start_soon(self._extend, claim, extending)
        try:
            return await work()
        finally:
            extending.cancel()
            with anyio.CancelScope(shield=True):
                await self._claiming.finish(claim.end)

    async def _extend(self, claim: Claim, scope: anyio.CancelScope) -> None:
        with scope:
            while True:
                await anyio.sleep(CLAIM_SECONDS / 3)
                # A claim that is lost meanwhile costs a second run, and no entry.
                with suppress(StorageError), as_outage():
                    await self._claiming.finish(claim.take)

    async def read(self, function: Callable[..., R], *arguments: Any) -> R:
        """Return what a plan's blocking function returns, from a worker thread."""
        return await self._planning.finish(partial(function, *arguments))

    def end(self, actor: SessionActor, error: SessiondError) -> None:
        """Stop the runs of a session that is being closed."""
        for run in list(self._runs):
            if run.actor is actor:
                run.stop(error)

    def _leave(self, run: Run[Any], ticket: Ticket) -> None:
        """Remove a waiting ticket; a run that no ticket waits for ends."""
        run.waiting.discard(ticket)
        if run.waiting or run.automatic or run.done.is_set() or run.committing:
            return
        run.given_up = True
        run.stop(Cancelled("no caller waited for the summary any more"))

    async def _carry_out(
        self,
        run: Run[R],
        work: Callable[[], Awaitable[R]],
        on_end: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        try:
            with run.scope:
                run.result = await work()
                run.error = None
        except SessiondError as refusal:
            run.error = refusal
        except Exception as bug:  # noqa: BLE001 - one run's bug must not end the daemon
            run.error = exhausted(bug, RETRY_AFTER_MS) or Internal(
                "a bug in sessiond",
                incident_id=self.environment.report_bug("summary", bug),
            )
        finally:
            self._runs.discard(run)
            on_end()
            run.done.set()
            release()
