"""Compactions that the daemon carries out itself: plan, have a summary written, commit.

Law 1: one run per head. A caller that comes meanwhile joins the run and gets its entry.
Law 2: a run ends when no caller waits for it any more, unless it is automatic; it also ends with
its session. A run that has reached its write completes and is answered.
Law 3: a run blocks no other work: it reads in worker threads, waits for the summary in a task, and
its commit takes a place in the inbox like any other and may be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec import UNSET, Raw, UnsetType

from sessiond.errors import (
    Cancelled,
    HeadNotFound,
    Internal,
    NothingToCompact,
    Overloaded,
    SessiondError,
    exhausted,
)
from sessiond.limits import AUTOMATIC_REST_SECONDS, RETRY_AFTER_MS, RUN_PLANS_MAX, RUNS_MAX
from sessiond.model.deferred import DEFERRED
from sessiond.model.events import CompactionTold
from sessiond.model.plans import CompactionPlan
from sessiond.model.requests import BeforeCompact
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.background import run_in_background
from sessiond.service.actor.internal_commands import SystemClient, submit_and_wait
from sessiond.service.compaction.plan import PlanRequest, make_plan
from sessiond.service.compaction.result import CompactResult, EntryRef, tokens_around
from sessiond.service.compaction.run import CompactionRequest, CompactionRun
from sessiond.service.compaction.summarizers import Summarizers
from sessiond.service.environment import Environment
from sessiond.service.hooks import Hooks
from sessiond.service.log.events import notification
from sessiond.service.ports import Ticket
from sessiond.session.compaction.compaction import CompactRequest, compact
from sessiond.session.compaction.file_lists import with_lists
from sessiond.session.compaction.plan_id import decode_plan_id
from sessiond.session.compaction.touched_files import TouchedFiles
from sessiond.session.draft import Draft
from sessiond.session.receipts import Receipt

__all__ = ["CompactionRunner"]


class CompactionRunner:
    """Running compactions of one daemon."""

    def __init__(
        self, tasks: TaskGroup, environment: Environment, summaries: Summarizers, hooks: Hooks
    ) -> None:
        self._tasks = tasks
        self._environment = environment
        self._summaries = summaries
        self._hooks = hooks
        # A limit, so that plans leave threads and memory to other requests.
        self._planning = CapacityLimiter(RUN_PLANS_MAX)
        self._runs: dict[tuple[SessionActor, str], CompactionRun] = {}
        # End of a head's rest after a failed automatic run, on the monotonic clock.
        self._resting: dict[tuple[SessionActor, str], float] = {}

    def __len__(self) -> int:
        return len(self._runs)

    # -- beginning -------------------------------------------------------------------

    def join(self, actor: SessionActor, ticket: Ticket, wish: CompactionRequest) -> Any:
        """Join the head's run, or begin one; return DEFERRED. Raise Overloaded, Cancelled."""
        ticket.client.require_here()
        run = self._runs.get((actor, wish.head))
        if run is None:
            run = self._begin(actor, wish, ticket.client, ticket.origin_id)
        run.waiting.add(ticket)

        async def wait() -> CompactResult:
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

        run_in_background(ticket, wait, self._environment, give_up)
        return DEFERRED

    def begin_by_itself(self, actor: SessionActor, head: str) -> None:
        """Begin an automatic run, unless it is pointless now."""
        key = (actor, head)
        resting = self._resting.get(key, 0.0) > self._environment.monotonic()
        if key in self._runs or resting or len(self._runs) >= RUNS_MAX:
            return
        # The holder of a head's lease compacts the head itself.
        if self._summaries.anybody and not actor.leases.is_held(head):
            self._begin(actor, CompactionRequest(head), SystemClient(), UNSET, automatic=True)

    def end(self, actor: SessionActor, error: SessiondError) -> None:
        """Stop the runs of a session that is being closed."""
        for key, run in list(self._runs.items()):
            if key[0] is actor:
                run.stop(error)
        for key in [key for key in self._resting if key[0] is actor]:
            del self._resting[key]

    def _begin(
        self,
        actor: SessionActor,
        wish: CompactionRequest,
        asker: Any,
        origin_id: Raw | UnsetType,
        *,
        automatic: bool = False,
    ) -> CompactionRun:
        if len(self._runs) >= RUNS_MAX:
            raise Overloaded(
                "the limit of running compactions is reached: try again later, or send a summary",
                limit=RUNS_MAX,
                retry_after_ms=RETRY_AFTER_MS,
            )
        run = CompactionRun(actor, wish, asker, origin_id, automatic=automatic)
        self._runs[actor, wish.head] = run
        self._tasks.start_soon(self._carry_out, run, actor.retain())
        return run

    def _leave(self, run: CompactionRun, ticket: Ticket) -> None:
        """Remove a waiting ticket; a run that no ticket waits for ends."""
        run.waiting.discard(ticket)
        if run.waiting or run.automatic or run.done.is_set() or run.committing:
            return
        # The next caller begins another run.
        self._forget(run)
        run.stop(Cancelled("no caller waited for the compaction any more"))

    def _forget(self, run: CompactionRun) -> None:
        key = (run.actor, run.wish.head)
        if self._runs.get(key) is run:
            del self._runs[key]

    # -- carrying out ------------------------------------------------------------------

    async def _carry_out(self, run: CompactionRun, release: Callable[[], None]) -> None:
        try:
            with run.scope:
                run.result = await self._compact(run)
                run.error = None
        except SessiondError as refusal:
            run.error = refusal
        except Exception as bug:  # noqa: BLE001 - one run's bug must not end the daemon
            run.error = exhausted(bug, RETRY_AFTER_MS) or Internal(
                "a bug in sessiond",
                incident_id=self._environment.report_bug("compaction", bug),
            )
        finally:
            self._forget(run)
            if run.error is not None and run.automatic:
                until = self._environment.monotonic() + AUTOMATIC_REST_SECONDS
                self._resting[run.actor, run.wish.head] = until
            self._tell_end(run)
            run.done.set()
            release()

    async def _compact(self, run: CompactionRun) -> CompactResult:
        actor, wish = run.actor, run.wish
        head = actor.opened.session.heads.get(wish.head)
        if head is None:
            raise HeadNotFound("the head was dropped before its compaction began", head=wish.head)
        planned = PlanRequest(wish.head, instructions=wish.instructions)
        plan = await to_thread.run_sync(
            make_plan, actor, head.leaf, planned, limiter=self._planning
        )
        if not isinstance(plan, CompactionPlan):
            raise NothingToCompact(
                "there is nothing to summarise at this head now", reason=plan, head=wish.head
            )
        run.plan = plan
        _tell(run, CompactionTold(actor.session_id, wish.head, "started", plan.tokens_before))
        summary = None
        if self._hooks.wanted("before_compact"):
            about = BeforeCompact(actor.session_id, wish.head, plan.facts(), run.automatic)
            summary = await self._hooks.before("before_compact", about)
        if summary is None:
            summary = await self._summaries.write(plan, actor.session_id, wish.head, run.asker)
        # The run may have been stopped in the step in which the summary came.
        await checkpoint_if_cancelled()
        run.committing = True
        receipt: Receipt = await submit_and_wait(
            actor, lambda draft: _stage(draft, run, plan, summary), run.asker, run.origin_id
        )
        (stored,) = receipt.entries
        entry = EntryRef(stored.id, stored.seq)
        result = CompactResult(entry, receipt.leaf_id, receipt.seq, plan.tokens_before, None)
        return await tokens_around(actor, result, plan.tokens_before)

    def _tell_end(self, run: CompactionRun) -> None:
        if run.plan is None:
            return
        head, before = run.wish.head, run.plan.tokens_before
        session_id = run.actor.session_id
        if run.result is not None:
            after = UNSET if run.result.tokens_after is None else run.result.tokens_after
            _tell(run, CompactionTold(session_id, head, "completed", before, after))
        elif run.error is not None:
            reason = run.error.kind
            _tell(run, CompactionTold(session_id, head, "failed", before, reason=reason))


def _stage(draft: Draft, run: CompactionRun, plan: CompactionPlan, summary: str) -> Receipt:
    opened = run.actor.opened
    details = opened.dialect.file_details(plan.files.read, plan.files.modified)
    if not opened.dialect.rules.shows_files:
        # The program whose file this is shows a summary as it is stored.
        preset = run.actor.environment.policies.of(opened).preset
        files = TouchedFiles(tuple(plan.files.read), tuple(plan.files.modified))
        summary = with_lists(summary, preset.list_files(files))
    request = CompactRequest(
        session_id=run.actor.session_id,
        summary=summary,
        details=details,
        head=run.wish.head,
        lease_id=run.wish.lease_id,
        idempotency_key=run.wish.idempotency_key,
        plan=decode_plan_id(plan.plan_id),
    )
    return compact(draft, request)


def _tell(run: CompactionRun, told: CompactionTold) -> None:
    run.actor.hub.hint(notification("session/compaction", told))
