"""Recommendation of compactions to subscribers, and automatic compactions.

Law: off the way of an append. A change costs a look at two sets. The tokens of a context are
computed shortly after, once for all changes meanwhile, and only for sessions that have a
subscriber or compact automatically. No message is read while its size alone tells that the context
stays small, or stays too large. A recommendation is sent once each time a head gets too large, to
subscribers that take signals and have room: it is a hint, session/usage tells the truth. An
automatic compaction begins at most once per position of a head.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from sessiond.errors import StorageError, exhausted
from sessiond.limits import COMPACTION_LOOK_SECONDS, RETRY_AFTER_MS
from sessiond.model.events import CompactionTold
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.live import Live
from sessiond.service.compaction.result import tell
from sessiond.service.compaction.runner import CompactionRunner
from sessiond.service.policies import Policies
from sessiond.session.compaction.policy import Policy
from sessiond.session.context.context import messages_seen


class _Judged(Struct, frozen=True):
    """Leaf of a head at the last check, and whether its context was too large."""

    leaf: int
    over: bool
    tokens: int
    """Tokens of the context, or an upper bound while the bound is not too much."""
    policy: Policy


class Recommender:
    """Sessions that changed since the last check."""

    def __init__(self, tasks: TaskGroup, runs: CompactionRunner) -> None:
        self._tasks = tasks
        self._runs = runs
        self._changed: set[SessionActor] = set()
        self._looking = False
        self._judged: dict[SessionActor, dict[str, _Judged]] = {}

    def touch(self, actor: SessionActor) -> None:
        """Note that the session changed."""
        if actor in self._changed:
            return
        live = actor.live
        if not (live.hub or actor.environment.policies.may_be_automatic(live.opened)):
            return
        self._changed.add(actor)
        if not self._looking:
            self._looking = True
            self._tasks.start_soon(self._look)

    def forget(self, actor: SessionActor) -> None:
        """Forget a closed session."""
        self._changed.discard(actor)
        self._judged.pop(actor, None)

    async def _look(self) -> None:
        """Check the changed sessions until no session is left."""
        while self._changed:
            await anyio.sleep(COMPACTION_LOOK_SECONDS)
            changed, self._changed = self._changed, set()
            for actor in changed:
                try:
                    await self._judge(actor)
                except StorageError:
                    # No client asked for this; the next reader of the session gets the error.
                    continue
                except Exception as bug:  # noqa: BLE001 - a failed recommendation must end nothing
                    self._complain(actor, bug)
        self._looking = False

    def _complain(self, actor: SessionActor, bug: Exception) -> None:
        what, environment = f"the context of {actor.session_id}", actor.environment
        short = exhausted(bug, RETRY_AFTER_MS)
        if short is None:
            environment.report_bug(what, bug)
        else:
            environment.report_trouble(f"{what}: {short}")

    async def _judge(self, actor: SessionActor) -> None:
        live = actor.live
        opened = live.opened
        policies = actor.environment.policies
        usual = policies.of(opened)
        if not usual.enabled or not (actor.hub or usual.auto):
            self._judged.pop(actor, None)
            return
        before = self._judged.get(actor, {})
        now: dict[str, _Judged] = {}
        for name, head in list(opened.session.heads.items()):
            known = before.get(name)
            if known is not None and known.leaf == head.leaf:
                now[name] = known
                continue
            judged = now[name] = await _judged(live, policies, head.leaf, known)
            if judged.over and not (known is not None and known.over):
                told = CompactionTold(actor.session_id, name, "recommended", judged.tokens)
                tell(actor, told)
            if judged.over and judged.policy.auto:
                self._runs.begin_by_itself(actor, name)
        if actor.hub or usual.auto:
            self._judged[actor] = now


async def _judged(live: Live, policies: Policies, leaf: int, known: _Judged | None) -> _Judged:
    """Return whether the context at `leaf` is too large, using the head's earlier check."""
    opened, estimates = live.opened, live.estimates
    messages = messages_seen(opened.session, leaf)
    if known is not None and known.policy == policies.of(opened):
        policy = known.policy
        if known.over and not await estimates.may_be_less(known.leaf, leaf):
            return _Judged(leaf, known.over, known.tokens, policy)
        more = None if known.over else await estimates.growth(known.leaf, leaf)
        if more is not None:
            tokens = known.tokens + more
            if not policy.should_compact(tokens, policy.context_window, messages):
                return _Judged(leaf, known.over, tokens, policy)
    tokens = await estimates.ask(leaf)
    policy = policies.of(opened)
    over = policy.should_compact(tokens, policy.context_window, messages)
    return _Judged(leaf, over, tokens, policy)
