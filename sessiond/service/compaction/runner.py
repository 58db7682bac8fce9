"""Compactions that the daemon carries out itself: plan, have a summary written, commit.

Law: one run per head, over all daemons that serve the session. A caller that comes meanwhile joins the
run and gets its entry. The commit takes a place in the inbox like any other and may be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from msgspec import UNSET

from sessiond.errors import Cancelled, HeadNotFound, NothingToCompact, SessiondError
from sessiond.limits import AUTOMATIC_REST_SECONDS, CLAIM_LOOK_SECONDS, RUNS_MAX
from sessiond.model.events import CompactionTold
from sessiond.model.plans import CompactionPlan
from sessiond.model.requests import BeforeCompact, SummarizeParams
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.internal_commands import SystemClient, look_again, submit_and_wait
from sessiond.service.compaction.figures import figures_at
from sessiond.service.compaction.plan import PlanRequest, make_plan
from sessiond.service.compaction.rendering import lines_to_read, renderer
from sessiond.service.compaction.result import (
    CompactResult,
    EntryRef,
    stored_result,
    tell,
    tell_completed,
    tokens_around,
)
from sessiond.service.compaction.run import CompactionRequest, CompactionRun
from sessiond.service.hooks import Hooks
from sessiond.service.log.open_session import OpenSession
from sessiond.service.ports import Ticket
from sessiond.service.store.claims import Claim
from sessiond.service.summaries.runs import SummaryRuns
from sessiond.service.summaries.summarizers import Wanted
from sessiond.session.compaction.compaction import CompactRequest, Figures, compact
from sessiond.session.compaction.plan_id import decode_plan_id
from sessiond.session.compaction.policy import stored_summary
from sessiond.session.compaction.touched_files import TouchedFiles
from sessiond.session.receipts import Receipt

_INSTEAD = "plan_id and summary"
_ClaimSource = Callable[[OpenSession, str], Claim | None]


class CompactionRunner:
    """Running compactions of one daemon."""

    def __init__(self, runs: SummaryRuns, hooks: Hooks, claim: _ClaimSource) -> None:
        self._all = runs
        self._hooks = hooks
        self._claim = claim
        self._runs: dict[tuple[SessionActor, str], CompactionRun] = {}
        # End of a head's rest after a failed automatic run, on the monotonic clock.
        self._resting: dict[tuple[SessionActor, str], float] = {}

    # -- beginning -------------------------------------------------------------------

    def join(self, actor: SessionActor, ticket: Ticket, wish: CompactionRequest) -> Any:
        """Join the head's run, or begin one; return DEFERRED. Raise Overloaded, Cancelled."""
        ticket.client.require_here()
        run = self._running(actor, wish.head)
        if run is None:
            run = CompactionRun(actor, wish, ticket.client, ticket.origin_id, automatic=False)
            self._begin(run)
        return self._all.join(run, ticket)

    def begin_by_itself(self, actor: SessionActor, head: str) -> None:
        """Begin an automatic run, unless it is pointless now."""
        key = (actor, head)
        resting = self._resting.get(key, 0.0) > self._all.environment.monotonic()
        if self._running(actor, head) is not None or resting or len(self._all) >= RUNS_MAX:
            return
        # The holder of a head's lease compacts the head itself.
        if self._all.writers.anybody("compaction") and not actor.leases.is_held(head):
            wish = CompactionRequest(head)
            self._begin(CompactionRun(actor, wish, SystemClient(), UNSET, automatic=True))

    def end(self, actor: SessionActor, error: SessiondError) -> None:
        """Stop the runs of a session that is being closed, merges, squashes and navigations too."""
        self._all.end(actor, error)
        for key in [key for key in self._resting if key[0] is actor]:
            del self._resting[key]

    def _running(self, actor: SessionActor, head: str) -> CompactionRun | None:
        """Return the head's run that a caller may join."""
        run = self._runs.get((actor, head))
        return None if run is None or run.given_up else run

    def _begin(self, run: CompactionRun) -> None:
        self._all.begin(run, partial(self._compact, run), partial(self._end, run))
        self._runs[run.actor, run.wish.head] = run

    def _end(self, run: CompactionRun) -> None:
        key = (run.actor, run.wish.head)
        if self._runs.get(key) is run:
            del self._runs[key]
        if run.error is not None and run.automatic and not run.given_up:
            self._resting[key] = self._all.environment.monotonic() + AUTOMATIC_REST_SECONDS
        _tell_end(run)

    # -- carrying out ------------------------------------------------------------------

    async def _compact(self, run: CompactionRun) -> CompactResult:
        """Compact, unless another daemon of the session does: then its entry is the result."""
        actor, head = run.actor, run.wish.head
        claim = self._claim(actor.opened, f"compaction of {head}")
        if claim is None:
            return await self._compact_here(run)
        await look_again(actor)
        seen = actor.seq
        while not await to_thread.run_sync(claim.take):
            if run.give_up_unasked():
                raise Cancelled("another daemon compacts the head")
            await anyio.sleep(CLAIM_LOOK_SECONDS)

        async def compact_or_find() -> CompactResult:
            await look_again(actor)
            session = actor.opened.session
            at = session.heads.get(head)
            stored = 0 if at is None else session.compaction_refs[at.leaf]
            if stored <= seen:
                return await self._compact_here(run)
            return await tokens_around(actor, stored_result(actor, head, stored), None)

        return await self._all.under(claim, compact_or_find)

    async def _compact_here(self, run: CompactionRun) -> CompactResult:
        actor, wish = run.actor, run.wish
        head = actor.opened.session.heads.get(wish.head)
        if head is None:
            raise HeadNotFound("the head was dropped before its compaction began", head=wish.head)
        planned = PlanRequest(
            wish.head,
            instructions=wish.instructions,
            first_kept_entry_id=wish.first_kept_entry_id,
        )
        plan = await self._all.read(make_plan, actor, head.leaf, planned)
        if not isinstance(plan, CompactionPlan):
            raise NothingToCompact(
                "there is nothing to summarise at this head now", reason=plan, head=wish.head
            )
        run.plan = plan
        tell(run.actor, CompactionTold(actor.session_id, wish.head, "started", plan.tokens_before))
        summary = ""
        if self._hooks.wanted("before_compact"):
            about = BeforeCompact(actor.session_id, wish.head, plan.facts(), run.automatic)
            summary = (await self._hooks.before("before_compact", about)).summary
        if not summary:
            request = SummarizeParams(
                actor.session_id, wish.head, "compaction", plan.facts(), plan.prompt
            )
            summary = await self._all.write(run, Wanted(request, plan, _INSTEAD))
        figures = Figures()
        if actor.opened.dialect.rules.notices:
            kept = plan.first_kept_entry_id
            figures = await self._all.read(figures_at, actor, head.leaf, kept, summary)
        await run.begin_write()
        commit = _commit(run, plan, (summary, figures))
        receipt: Receipt = await submit_and_wait(
            actor,
            lambda draft: compact(draft, commit, render=renderer(actor.opened)),
            run.asker,
            run.origin_id,
            lines_to_read(actor, commit),
        )
        (stored,) = receipt.entries
        entry = EntryRef(stored.id, stored.seq)
        result = CompactResult(entry, receipt.leaf_id, receipt.seq, plan.tokens_before, None)
        return await tokens_around(actor, result, plan.tokens_before)


def _tell_end(run: CompactionRun) -> None:
    if run.plan is None:
        return
    head, before = run.wish.head, run.plan.tokens_before
    session_id = run.actor.session_id
    if run.result is not None:
        tell_completed(run.actor, head, run.result)
    elif run.error is not None:
        reason = run.error.kind
        tell(run.actor, CompactionTold(session_id, head, "failed", before, reason=reason))


def _commit(run: CompactionRun, plan: CompactionPlan, made: tuple[str, Figures]) -> CompactRequest:
    """Return the call that stores the compaction."""
    opened = run.actor.opened
    summary, figures = made
    details = opened.dialect.file_details(plan.files.read, plan.files.modified)
    preset = run.actor.environment.policies.of(opened).preset
    files = TouchedFiles(tuple(plan.files.read), tuple(plan.files.modified))
    summary = stored_summary(summary, files, opened.dialect.rules, preset)
    return CompactRequest(
        session_id=run.actor.session_id,
        summary=summary,
        details=details,
        head=run.wish.head,
        lease_id=run.wish.lease_id,
        idempotency_key=run.wish.idempotency_key,
        plan=decode_plan_id(plan.plan_id),
        figures=figures,
    )
