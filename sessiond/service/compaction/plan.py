"""Complete plan of a compaction: what is summarised and kept, and the prompt for the summary."""

from __future__ import annotations

from msgspec import Struct

from sessiond.model.ids import MAIN
from sessiond.model.parsed_message import ParsedMessage
from sessiond.model.plans import CompactionPlan, PlannedFiles
from sessiond.service.actor.actor import SessionActor
from sessiond.service.compaction.division import Division, plan_at, plan_before
from sessiond.session.compaction.cut_point import Reason, Step
from sessiond.session.compaction.plan_id import PlanRef, encode_plan_id
from sessiond.session.compaction.prompts import Material, compaction_prompt


class PlanRequest(Struct, frozen=True):
    """Head; number of newest tokens to keep, or the first entry to keep; focus of the summary."""

    head: str = MAIN
    keep_recent_tokens: int | None = None
    instructions: str | None = None
    first_kept_entry_id: str | None = None


def make_plan(actor: SessionActor, leaf: int, wish: PlanRequest) -> CompactionPlan | Reason:
    """Return the plan at a leaf of the head, or the reason why there is nothing to do. Blocks.

    The plan's files are remembered for its compaction. Raises EntryInvalid, StorageError, TooLarge.
    """
    policies = actor.environment.policies
    policy = policies.of(actor.opened)
    estimator = policies.estimator(policy)
    kept = wish.first_kept_entry_id
    if kept is None:
        found = plan_at(actor.opened, leaf, policy, estimator, wish.keep_recent_tokens)
    else:
        found = plan_before(actor.opened, leaf, policy, estimator, kept)
    if not isinstance(found, Division):
        return found
    return _told(actor, leaf, wish, found, policy.preset.marker)


def _told(
    actor: SessionActor, leaf: int, wish: PlanRequest, found: Division, marker: str
) -> CompactionPlan:
    parts, past = found.parts, found.past
    tokens = actor.estimates.find(leaf)
    leaf_id = actor.opened.session.names[leaf]
    ref = PlanRef(actor.session_id, wish.head, leaf_id, parts.first_kept.id, tokens)
    plan_id = encode_plan_id(ref)
    actor.plan_files.put(plan_id, parts.files)
    material = Material(
        [*past.messages, *_readings(parts.history)],
        _readings(parts.turn_prefix),
        past.summary,
        parts.files,
        marker,
        wish.instructions,
        lists_follow=actor.opened.dialect.rules.shows_files,
    )
    return CompactionPlan(
        plan_id=plan_id,
        leaf_id=leaf_id,
        first_kept_entry_id=parts.first_kept.id,
        summarize=[*([past.id] if past.messages else []), *(step.id for step in parts.history)],
        turn_prefix=[step.id for step in parts.turn_prefix],
        previous_summary=past.summary,
        files=PlannedFiles(parts.files.read, parts.files.modified),
        tokens_before=tokens,
        prompt=compaction_prompt(material),
    )


def _readings(steps: list[Step]) -> list[ParsedMessage]:
    return [step.reading for step in steps if step.reading is not None]
