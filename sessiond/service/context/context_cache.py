"""Contexts spliced from stored bytes, and kept while they are in use.

A context at an entry never changes, so it is cached by its leaf. The next turn extends the cached
context by the new entries, unless a compaction or an edit lies between. Then the context is
spliced anew, in a worker thread if it is not small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from sessiond.limits import (
    CONTEXT_CACHE_BYTES_MAX,
    CONTEXT_CACHE_COUNT_MAX,
    INLINE_WALK_STEPS,
)
from sessiond.model.row import Kind
from sessiond.service.context.cache_budget import CacheBudget
from sessiond.service.context.context_lines import context_lines, settings_before
from sessiond.service.context.recently_used import RecentlyUsed
from sessiond.service.log.open_session import OpenSession
from sessiond.session.context.context import (
    ContextPlan,
    entries_after,
    plan_context,
    shared_prefix,
)


class Context(Struct, frozen=True):
    """Built context. The lists may have grown for a later leaf: `count` bounds this context."""

    leaf: int
    plan: ContextPlan
    bodies: list[bytes]
    sources: list[str]
    count: int
    size: int

    def messages(self, start: int = 0) -> Sequence[bytes]:
        """Return the message bytes from `start` on."""
        return self.bodies[start : self.count]

    def shared(self, other: Context) -> int:
        """Return the length of the common prefix of two contexts, in bytes and sources of messages."""
        sources = shared_prefix(self.sources[: self.count], other.sources[: other.count])
        return min(sources, shared_prefix(self.messages(), other.messages()))


class ContextCache(RecentlyUsed[int, Context]):
    """Recently used contexts of one session, by leaf."""

    def __init__(self, caches: CacheBudget | None = None) -> None:
        super().__init__(
            caches, count_max=CONTEXT_CACHE_COUNT_MAX, bytes_max=CONTEXT_CACHE_BYTES_MAX
        )

    def bytes_of(self, values: Collection[Context]) -> int:
        """Return the sum of the contexts' sizes."""
        return sum(context.size for context in values)

    def keep(self, context: Context) -> None:
        """Keep a context at its leaf."""
        self.put(context.leaf, context)

    def build_now(self, opened: OpenSession, leaf: int) -> Context | None:
        """Return the context at `leaf` if that is cheap: kept, few new entries, or small."""
        found = self.get(leaf) or self._extend(opened, leaf)
        if found is not None:
            return found
        session = opened.session
        if session.depths[leaf] > INLINE_WALK_STEPS:
            return None
        compaction = session.compaction_refs[leaf]
        read = [*plan_context(session, leaf).seqs, *settings_before(opened, compaction)]
        if not _is_small(opened, read):
            return None
        context = build_context(opened, leaf)
        self.keep(context)
        return context

    def _extend(self, opened: OpenSession, leaf: int) -> Context | None:
        """Return the context at `leaf` grown from a kept one at an ancestor, or None.

        A context outside the profile never grows, since its lines are not read here: a new line there may join
        an answer that the context has.
        """
        session = opened.session
        for base in self.latest():
            if session.compaction_refs[leaf] != base.plan.compaction or base.leaf > leaf:
                continue
            at, steps = leaf, 0
            while at > base.leaf and steps < INLINE_WALK_STEPS:
                at = session.parents[at]
                steps += 1
            if at != base.leaf or len(base.bodies) != base.count:
                continue
            new = entries_after(session, base.leaf, leaf)
            edits = any(session.kinds[seq] == Kind.CONTEXT_EDIT for seq in new)
            if edits or not _is_small(opened, new):
                return None
            return self._grow(opened, base, leaf, new)
        return None

    def _grow(self, opened: OpenSession, base: Context, leaf: int, new: list[int]) -> Context:
        self.drop(base.leaf)
        bodies, sources = _read(opened, new, base.plan.compaction)
        base.bodies.extend(bodies)
        base.sources.extend(sources)
        base.plan.seqs.extend(new)
        session = opened.session
        plan = ContextPlan(
            leaf=leaf,
            seqs=base.plan.seqs,
            compaction=base.plan.compaction,
            edited=base.plan.edited,
            model=session.model_refs[leaf],
            thinking=session.thinking_refs[leaf],
        )
        context = Context(
            leaf=leaf,
            plan=plan,
            bodies=base.bodies,
            sources=base.sources,
            count=len(base.bodies),
            size=base.size + sum(map(len, bodies)),
        )
        self.keep(context)
        return context


def build_context(opened: OpenSession, leaf: int) -> Context:
    """Return the context at `leaf` from the file. Blocks; changes nothing."""
    plan = plan_context(opened.session, leaf)
    bodies, sources = _read(opened, plan.seqs, plan.compaction)
    return Context(
        leaf=leaf,
        plan=plan,
        bodies=bodies,
        sources=sources,
        count=len(bodies),
        size=sum(map(len, bodies)),
    )


def _is_small(opened: OpenSession, seqs: Iterable[int]) -> bool:
    return sum(map(opened.journal.line_bytes, seqs)) <= opened.inline_bytes


def _read(opened: OpenSession, seqs: list[int], compaction: int) -> tuple[list[bytes], list[str]]:
    lines = context_lines(opened, seqs, opened.journal.read_many(seqs), compaction)
    messages = opened.dialect.context(lines)
    return [message.body for message in messages], [message.source for message in messages]
