"""Views of contexts, repaired or in a provider's shape, and kept while they are in use.

Law: the settled messages of a view are shared with every later view that grew from it. So the next
turn shows its own messages only, and two views are compared from where they may differ. Large
reads happen in a worker thread; only the loop changes the cache.
"""

from __future__ import annotations

from collections.abc import Collection

from anyio import to_thread
from msgspec import Struct

from sessiond.limits import (
    INLINE_WALK_STEPS,
    VIEW_CACHE_BYTES_MAX,
    VIEW_CACHE_COUNT_MAX,
)
from sessiond.service.context.cache_budget import CacheBudget
from sessiond.service.context.context_cache import Context
from sessiond.service.context.recently_used import RecentlyUsed
from sessiond.service.log.open_session import OpenSession
from sessiond.session.context.context import shared_prefix
from sessiond.session.providers.shapes import NOTHING, Settled, ShapedPart, View, show
from sessiond.session.providers.tool_pairing import ContextMessage


class _Trunk(Struct, eq=False):
    """Settled messages; grows for the newest view and stays unchanged for the older ones."""

    bodies: list[bytes]
    sources: list[str]
    system: list[str]
    called: dict[str, int]
    """Ids of tool calls, with the first message of the context that holds each."""
    size: int = 0

    def upto(self, after: Settled, said: int) -> _Trunk:
        """Return this trunk, or a copy that may grow if this one has grown another way since."""
        settled = after.shown
        if (len(self.bodies), len(self.system)) == (settled, said):
            return self
        bodies = self.bodies[:settled]
        called = {name: place for name, place in self.called.items() if place < after.taken}
        sources, system = self.sources[:settled], self.system[:said]
        return _Trunk(bodies, sources, system, called, sum(map(len, bodies)))

    def grow(self, part: ShapedPart) -> None:
        """Add the messages that settled."""
        self.bodies.extend(body for _, body in part.settled)
        self.sources.extend(source for source, _ in part.settled)
        self.system.extend(part.system[0])
        for name, place in part.called.items():
            self.called.setdefault(name, place)
        self.size += sum(len(body) for _, body in part.settled)


class _Used(Struct, frozen=True):
    """Ids of the tool calls among the first `taken` messages of a trunk's contexts."""

    called: dict[str, int]
    taken: int

    def __contains__(self, name: object) -> bool:
        place = self.called.get(name) if isinstance(name, str) else None
        return place is not None and place < self.taken


class Viewed(Struct, frozen=True, eq=False):
    """Context in a view: a prefix of a trunk, and the remaining messages."""

    leaf: int
    view: View
    compaction: int
    trunk: _Trunk
    part: ShapedPart
    said: int
    """Number of the trunk's system texts that belong to this view."""

    @property
    def settled(self) -> int:
        """Number of the trunk's messages that belong to this view."""
        return self.part.after.shown

    @property
    def count(self) -> int:
        """Number of messages."""
        return self.settled + len(self.part.rest)

    def bodies(self, start: int = 0) -> list[bytes]:
        """Return the messages from `start` on."""
        rest = [body for _, body in self.part.rest]
        return self.trunk.bodies[start : self.settled] + rest[max(0, start - self.settled) :]

    def sources(self, start: int = 0) -> list[str]:
        """Return the source entries of the messages from `start` on."""
        rest = [source for source, _ in self.part.rest]
        return self.trunk.sources[start : self.settled] + rest[max(0, start - self.settled) :]

    def system(self) -> list[str]:
        """Return the texts of the system's messages."""
        return self.trunk.system[: self.said] + self.part.system[1]


def shared(one: Viewed, other: Viewed) -> int:
    """Return the length of the common prefix of two views, in bytes and sources of messages."""
    same = min(one.settled, other.settled) if one.trunk is other.trunk else 0
    sources = shared_prefix(one.sources(same), other.sources(same))
    return same + min(sources, shared_prefix(one.bodies(same), other.bodies(same)))


class ViewCache(RecentlyUsed[tuple[int, View], Viewed]):
    """Recently used views of one session's contexts, by leaf and view."""

    def __init__(self, opened: OpenSession, caches: CacheBudget | None = None) -> None:
        super().__init__(caches, count_max=VIEW_CACHE_COUNT_MAX, bytes_max=VIEW_CACHE_BYTES_MAX)
        self._opened = opened

    def bytes_of(self, values: Collection[Viewed]) -> int:
        """Return the bytes of the messages; views that share a trunk keep it once."""
        trunks = {id(viewed.trunk): viewed.trunk.size for viewed in values}
        rests = sum(len(body) for viewed in values for _, body in viewed.part.rest)
        return sum(trunks.values()) + rests

    def now(self, context: Context, view: View) -> Viewed | None:
        """Return the context in a view if that is cheap: kept, few new messages, or small."""
        found = self.get((context.leaf, view))
        if found is not None:
            return found
        for base in (self._base(context, view), None):
            if _size(context, base) <= self._opened.inline_bytes:
                part = _show(self._opened, context, view, base)
                if part is not None:
                    return self._keep(context, view, base, part)
        return None

    async def ask(self, context: Context, view: View) -> Viewed:
        """Return the context in a view, made in a worker thread if necessary."""
        found = self.now(context, view)
        if found is not None:
            return found
        base = self._base(context, view)
        part = await to_thread.run_sync(_show, self._opened, context, view, base)
        if part is None:
            base = None
            part = await to_thread.run_sync(_show, self._opened, context, view, None)
        assert part is not None, "without a base no settled message can change"
        return self._keep(context, view, base, part)

    def _base(self, context: Context, view: View) -> Viewed | None:
        """Return a kept view of an ancestor whose messages are a prefix of this context's, or None."""
        if context.plan.edited:
            return None
        session = self._opened.session
        for base in self.latest():
            if base.view != view or base.compaction != context.plan.compaction:
                continue
            at, steps = context.leaf, 0
            while at > base.leaf and steps < INLINE_WALK_STEPS:
                at = session.parents[at]
                steps += 1
            if at == base.leaf:
                return base
        return None

    def _keep(self, context: Context, view: View, base: Viewed | None, part: ShapedPart) -> Viewed:
        trunk = _Trunk([], [], [], {})
        if base is not None:
            trunk = base.trunk.upto(base.part.after, base.said)
        trunk.grow(part)
        compaction, said = context.plan.compaction, len(trunk.system)
        found = Viewed(context.leaf, view, compaction, trunk, part, said)
        self.put((context.leaf, view), found)
        return found


def _size(context: Context, base: Viewed | None) -> int:
    """Return the bytes of the messages that would be read."""
    if base is None:
        return context.size
    return sum(map(len, context.messages(base.part.after.taken)))


def _show(
    opened: OpenSession, context: Context, view: View, base: Viewed | None
) -> ShapedPart | None:
    """Return the messages behind the settled ones of `base`; None if they change settled ones."""
    before = NOTHING if base is None else base.part.after
    used = () if base is None else _Used(base.trunk.called, before.taken)
    told: list[ContextMessage] = []
    sources = context.sources[before.taken : context.count]
    bodies = context.messages(before.taken)
    for place, (source, body) in enumerate(zip(sources, bodies, strict=True), before.taken):
        reading = opened.dialect.read(body)
        if reading is not None:
            told.append(ContextMessage(source, body, reading, place))
    return show(view, told, before, used)
