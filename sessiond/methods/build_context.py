"""session/build_context: what the model sees at a head or an entry."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Literal

from anyio import to_thread
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.dialects.base import ModelName
from sessiond.errors import EntryNotFound, HeadNotFound
from sessiond.methods.common import Call, Client, Method, SessionParams, ask, encode, raw
from sessiond.methods.place import leaf_of
from sessiond.model.entries import MessageBytes
from sessiond.model.ids import EntryId, HeadName
from sessiond.service.contexts import Context, build_context
from sessiond.service.host import Host
from sessiond.service.viewing import STORED, Shape, Shown, View, view_of
from sessiond.session.context import shared_prefix

__all__ = ["METHOD"]


class Known(Struct, frozen=True, forbid_unknown_fields=True):
    """The context the caller holds: where it was built and how many messages it had."""

    leaf_id: EntryId | None
    count: Annotated[int, Meta(ge=0)]


class BuildContextParams(SessionParams):
    """Where; what the caller has already; how it is shown, and what with it."""

    head: HeadName | None = None
    entry_id: EntryId | None = None
    known: Known | None = None
    if_none_match: str | None = None
    repair: bool = False
    shape: Shape = "stored"
    include: list[Literal["system"]] | None = None


class BuildContextResult(Struct, frozen=True):
    """The messages from the `unchanged`th on, and the entry each comes from.

    `tokens` is an estimate of the whole context, see "Estimates" in protocol.md.
    """

    messages: list[MessageBytes]
    sources: list[str]
    thinking_level: str
    model: ModelName | None
    leaf_id: str | None
    seq: int
    etag: str
    tokens: int
    unchanged: int
    system: str | UnsetType | None = UNSET


class NotModified(Struct, frozen=True):
    """The caller's context is the current one."""

    etag: str
    not_modified: bool = True


def handle(client: Client, params: BuildContextParams, call: Call[Client]) -> Any:
    """Answer from the cache when it is near, else splice in a worker thread."""

    view = View(params.repair, params.shape)

    def look(host: Host) -> Any:
        leaf = leaf_of(host.opened.session, params)
        system = _system(host) if params.include else UNSET
        question = _Question(host, leaf, host.seq, params.known, view, system)
        if params.if_none_match == question.etag:
            return NotModified(question.etag)
        if view != STORED:
            return host.later(call, question.build_view)
        context = host.contexts.build_now(host.opened, leaf)
        tokens = host.estimates.now(leaf) if context is not None else None
        if context is not None and tokens is not None:
            other = question.other(context)
            if other is None:
                return question.answer(context, None, tokens)
            built = host.contexts.build_now(host.opened, other)
            if built is not None:
                return question.answer(context, built, tokens)
        return host.later(call, question.build)

    return ask(client, call, params.session_id, look)


def _system(host: Host) -> str | None:
    """The session's system prompt."""
    prompt = host.opened.whole().system_prompt
    return prompt if isinstance(prompt, str) else None


class _Question(Struct, frozen=True):
    """One call: where, as of which line, against what the caller holds."""

    host: Host
    leaf: int
    seq: int
    known: Known | None
    view: View = STORED
    system: str | UnsetType | None = UNSET

    @property
    def etag(self) -> str:
        """A context at an entry never changes within an epoch, so its place and view name it."""
        mark = self.view.mark
        if isinstance(self.system, str):
            mark += f".{sha256(self.system.encode(errors='replace')).hexdigest()[:16]}"
        elif self.system is None:
            mark += ".none"
        return f"{self.host.opened.epoch}.{self.leaf}{mark}"

    async def build(self) -> Raw:
        """Answer by way of worker threads."""
        context = await self._built(self.leaf)
        other = self.other(context)
        built = None if other is None else await self._built(other)
        return self.answer(context, built, await self.host.estimates.ask(self.leaf))

    async def build_view(self) -> Raw:
        """Answer with a view of the context; what is unchanged is found by comparing two of them."""
        context = await self._built(self.leaf)
        shown = await self._view(context)
        unchanged = 0
        known = 0 if self.known is None or self.known.leaf_id is None else self._known()
        if known:
            theirs = await self._view(await self._built(known))
            if self.known is not None and len(theirs.bodies) == self.known.count:
                unchanged = shared_prefix(shown.bodies, theirs.bodies)
        tokens = await self.host.estimates.ask(self.leaf)
        rest = Shown(shown.bodies[unchanged:], shown.sources[unchanged:])
        return self._spliced(context, rest, unchanged, tokens)

    def _known(self) -> int:
        """The entry where the caller's context was built; 0 for none that there is."""
        assert self.known is not None, "else nobody asks"
        return self.host.opened.session.node(self.known.leaf_id or "")

    async def _view(self, context: Context) -> Shown:
        return await to_thread.run_sync(view_of, self.host.opened, context, self.view)

    async def _built(self, leaf: int) -> Context:
        context = self.host.contexts.get(leaf)
        if context is None:
            context = await to_thread.run_sync(build_context, self.host.opened, leaf)
            self.host.contexts.put(context)
        return context

    def other(self, context: Context) -> int | None:
        """The known leaf, where its context must be built to compare the two."""
        if self.known is None or self.known.leaf_id is None:
            return None
        known = self.host.opened.session.node(self.known.leaf_id)
        if not known or self._prefix(context, known) is not None:
            return None
        return known

    def _prefix(self, context: Context, known: int) -> int | None:
        """How many messages the context at `known` has, if it is this one's beginning.

        That is the usual next turn: the leaf only grew since, by no compaction
        and no edit. Costs as many steps as there are new entries.
        """
        session = self.host.opened.session
        if context.plan.edited or known < context.plan.compaction:
            return None
        at = self.leaf
        while at > known:
            at = session.parents[at]
        if at != known:
            return None
        count = context.count
        while count and session.ids[context.sources[count - 1]] > known:
            count -= 1
        return count

    def unchanged(self, context: Context, other: Context | None) -> int:
        """How many messages the caller need not be sent again."""
        if self.known is None or self.known.leaf_id is None:
            return 0
        if other is not None:
            if self.known.count != other.count:
                return 0
            return shared_prefix(context.messages(), other.messages())
        known = self.host.opened.session.node(self.known.leaf_id)
        count = self._prefix(context, known) if known else None
        return count if count is not None and count == self.known.count else 0

    def answer(self, context: Context, other: Context | None, tokens: int) -> Raw:
        """The context, spliced from what the caller does not hold."""
        unchanged = self.unchanged(context, other)
        rest = Shown(list(context.messages(unchanged)), context.sources[unchanged : context.count])
        return self._spliced(context, rest, unchanged, tokens)

    def _spliced(self, context: Context, rest: Shown, unchanged: int, tokens: int) -> Raw:
        tail = {
            "thinking_level": context.thinking_level,
            "model": context.model,
            "leaf_id": self.host.opened.session.id_of(self.leaf),
            "seq": self.seq,
            "etag": self.etag,
            "tokens": tokens,
            "unchanged": unchanged,
        }
        if self.system is not UNSET:
            tail["system"] = self.system
        messages = b",".join(rest.bodies)
        sources = encode(rest.sources)
        return raw((b'{"messages":[', messages, b'],"sources":', sources, b",", encode(tail)[1:]))


METHOD = Method(
    name="session/build_context",
    aliases=("build_context",),
    params=BuildContextParams,
    result=BuildContextResult | NotModified,
    handle=handle,
    errors=(
        EntryNotFound,
        HeadNotFound,
    ),
)
