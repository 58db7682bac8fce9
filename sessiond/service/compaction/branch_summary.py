"""Summary of the entries that a head abandons when it goes to another branch."""

from __future__ import annotations

from sessiond.dialects.base import ContextLine
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.plans import PlanBranchSummaryResult, PlannedFiles
from sessiond.model.requests import SummarizeParams
from sessiond.model.row import Kind
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.plan_lines import plan_lines
from sessiond.service.policies import Policies
from sessiond.service.summaries.summarizers import Wanted
from sessiond.session.compaction.branching import (
    BranchMaterial,
    LeftStep,
    common_ancestor,
    entries_left,
    gather,
)
from sessiond.session.compaction.policy import Policy, stored_summary
from sessiond.session.compaction.prompts import branch_prompt
from sessiond.session.compaction.touched_files import TouchedFiles
from sessiond.session.context.tokens import Estimator

_SUMMARIES = frozenset({int(Kind.COMPACTION), int(Kind.BRANCH_SUMMARY)})


def branch_plan(
    opened: OpenSession,
    policies: Policies,
    places: tuple[int, int],
    instructions: str | None,
    budget: int | None = None,
) -> PlanBranchSummaryResult:
    """Return the plan for a head that goes from one place to another. Blocks.

    Raises StorageError, TooLarge.
    """
    policy = policies.of(opened)
    if budget is None:
        budget = max(1, policy.context_window - policy.reserve_tokens)
    told = told_of_branch(opened, places, policy, policies.estimator(policy), budget)
    readings = [step.reading for step in told.steps if step.reading is not None]
    session = opened.session
    return PlanBranchSummaryResult(
        entries=[step.id for step in told.steps],
        files=PlannedFiles(told.files.read, told.files.modified),
        details=opened.dialect.file_details(told.files.read, told.files.modified),
        tokens=told.tokens,
        common_ancestor_id=session.id_of(common_ancestor(session, *places)),
        leaf_id=session.id_of(places[0]),
        prompt=branch_prompt(readings, told.files, instructions),
    )


def branch_wanted(plan: PlanBranchSummaryResult, session_id: str, head: str) -> Wanted | None:
    """Return the summary that a plan needs; None if there is nothing to tell."""
    if plan.prompt is None:
        return None
    request = SummarizeParams(session_id, head, "branch", None, plan.prompt, entry_ids=plan.entries)
    return Wanted(request, plan, "summary and details")


def stored_of_branch(
    opened: OpenSession, policies: Policies, plan: PlanBranchSummaryResult, summary: str
) -> str:
    """Return a summary that was written by the plan, as the file keeps it."""
    files = TouchedFiles(plan.files.read, plan.files.modified)
    preset = policies.of(opened).preset
    return stored_summary(summary, files, opened.dialect.rules, preset, of_branch=True)


def told_of_branch(
    opened: OpenSession, places: tuple[int, int], policy: Policy, estimator: Estimator, budget: int
) -> BranchMaterial:
    """Return what to summarise when a head goes from one place to another. Blocks.

    Raises StorageError, TooLarge.
    """
    seqs = entries_left(opened.session, *places)
    lines = plan_lines(
        opened.journal,
        seqs,
        "the branch is larger than a plan may read: send a summary of your own to session/branch",
    )
    steps = [_step(opened, seq, line, estimator) for seq, line in zip(seqs, lines, strict=True)]
    return gather(steps, budget, policy.preset.files)


def _step(opened: OpenSession, seq: int, line: bytes, estimator: Estimator) -> LeftStep:
    name, kind = opened.session.names[seq], opened.session.kinds[seq]
    # A compaction's own message stands between those of the system, which it keeps, and its notice.
    messages = opened.dialect.context([ContextLine(name, kind, line)])
    messages = messages[:1] if opened.dialect.rules.notices else messages[-1:]
    reading = opened.dialect.read(messages[0].body) if messages else None
    if kind == Kind.BRANCH_SUMMARY and reading is None:
        # An empty summary adds nothing to a context, but it is one of the abandoned entries.
        reading = ParsedMessage("branch_summary", ())
    return LeftStep(
        name,
        reading,
        0 if reading is None else estimator.message(reading),
        opened.dialect.summary(line) if kind in _SUMMARIES else None,
        kind == Kind.BRANCH_SUMMARY,
    )
