"""Context answers that hold only the messages new to the caller, in the requested view, whole or by pages.

Law: the common prefix of two contexts is found without comparing message by message. If one context
grew from the other, the index alone tells the prefix. Views tell the prefix by the parts they share.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Annotated, Final

from anyio import to_thread
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from sessiond.errors import TooLarge
from sessiond.limits import RESULT_BYTES_MAX
from sessiond.methods._shared.common import encode, raw
from sessiond.methods._shared.place import cursor_of, proof_of
from sessiond.model.digests import sha256_hex
from sessiond.model.ids import EntryId
from sessiond.service.actor.actor import SessionActor
from sessiond.service.context.context_cache import Context, build_context
from sessiond.service.context.view_cache import Viewed, shared
from sessiond.session.providers.shapes import STORED, View
from sessiond.session.settings import Settings

# Room for what stands around the messages of an answer; a source costs an id and its quotes.
_FRAME_BYTES: Final = 64 * 1024
_SOURCE_BYTES: Final = 72


class Known(Struct, frozen=True, forbid_unknown_fields=True):
    """Context that the caller holds: its leaf and its number of messages."""

    leaf_id: EntryId | None
    count: Annotated[int, Meta(ge=0)]


class _Answer(Struct, frozen=True):
    """Messages that the caller does not hold, and the size of the prefix that the caller holds."""

    unchanged: int
    bodies: Sequence[bytes]
    sources: Sequence[str | None]
    tokens: int
    system: str | UnsetType | None


class ContextQuestion(Struct, frozen=True, kw_only=True):
    """Call of session/build_context: leaf, last line, known context, view, page."""

    actor: SessionActor
    leaf: int
    seq: int
    known: Known | None
    view: View
    system: str | UnsetType | None
    settings: Settings
    start: int = 0
    """Number of messages on the pages before this one."""
    limit: int | None = None
    """Most messages of a page; None if the caller asks for the whole context."""

    @property
    def is_stored(self) -> bool:
        """True if the view shows the stored messages unchanged."""
        return self.view == STORED

    @property
    def etag(self) -> str:
        """Name of the answer: epoch, leaf and view, which fix the messages.

        A later `session_info` may set another model or level at an unchanged leaf, so its line is part of
        the name.
        """
        opened = self.actor.opened
        proof = proof_of(opened.session, (self.leaf, self.settings.stated_at))
        return f"{opened.epoch}.{self.leaf}.{proof}{self._mark}"

    @property
    def _mark(self) -> str:
        """Name of the view and of the system prompt that is included."""
        if isinstance(self.system, str):
            return f"{self.view.mark}.{sha256_hex(self.system.encode(errors='replace'))[:16]}"
        return f"{self.view.mark}.none" if self.system is None else self.view.mark

    @property
    def pages(self) -> int:
        """Number that all pages of one context have in their cursors: epoch, view and prompt fix the messages."""
        return zlib.crc32(f"{self.actor.opened.epoch}{self._mark}".encode())

    @property
    def _held(self) -> int:
        """Entry at which the caller's context was built.

        0 if the caller holds no context, or if two entries have the id.
        """
        session = self.actor.opened.session
        if self.known is None or self.known.leaf_id is None:
            return 0
        return 0 if self.known.leaf_id in session.same_ids else session.node(self.known.leaf_id)

    # -- the stored messages -----------------------------------------------------

    def stored_now(self) -> Raw | None:
        """Return the answer if it is cheap, else None."""
        contexts, opened = self.actor.contexts, self.actor.opened
        context = contexts.build_now(opened, self.leaf)
        tokens = None if context is None else self.actor.estimates.now(self.leaf)
        if context is None or tokens is None:
            return None
        other = self._other(context)
        theirs = contexts.build_now(opened, other) if other else None
        if other and theirs is None:
            return None
        return self._stored_answer(context, theirs, tokens)

    async def stored(self) -> Raw:
        """Return the answer, computed in worker threads."""
        context, tokens = await self._counted()
        other = self._other(context)
        theirs = await self._built(other) if other else None
        return self._stored_answer(context, theirs, tokens)

    async def _counted(self) -> tuple[Context, int]:
        """Return the context and its tokens; one worker thread computes the missing parts."""
        kept = self.actor.contexts.get(self.leaf)

        def find() -> tuple[Context, int]:
            context = build_context(self.actor.opened, self.leaf) if kept is None else kept
            return context, self.actor.estimates.find(self.leaf)

        context, tokens = await to_thread.run_sync(find)
        self.actor.contexts.keep(context)
        return context, tokens

    async def _built(self, leaf: int) -> Context:
        context = self.actor.contexts.get(leaf)
        if context is None:
            context = await to_thread.run_sync(build_context, self.actor.opened, leaf)
            self.actor.contexts.keep(context)
        return context

    def _other(self, context: Context) -> int:
        """Return the known entry if its context must be built for a comparison, else 0."""
        known = self._held
        return known if known and self._prefix(context, known) is None else 0

    def _prefix(self, context: Context, known: int) -> int | None:
        """Return how many messages the context at `known` has if it is a prefix of this context.

        That is the usual next turn: the leaf only grew since then, without a compaction or an edit. Costs
        as many steps as there are new entries.
        """
        session = self.actor.opened.session
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

    def _stored_answer(self, context: Context, theirs: Context | None, tokens: int) -> Raw:
        unchanged = self.start
        if theirs is not None:
            if self.known is not None and self.known.count == theirs.count:
                unchanged = context.shared(theirs)
        elif self._held:
            count = self._prefix(context, self._held) or 0
            if self.known is not None and count == self.known.count:
                unchanged = count
        bodies, sources = context.messages(unchanged), context.sources[unchanged : context.count]
        return self._spliced(_Answer(unchanged, bodies, sources, tokens, self.system))

    # -- another view ------------------------------------------------------------

    def viewed_now(self) -> Raw | None:
        """Return the answer if it is cheap, else None."""
        actor, opened, held = self.actor, self.actor.opened, self._held
        theirs = actor.views.get((held, self.view))
        context = actor.contexts.build_now(opened, self.leaf)
        tokens = None if context is None else actor.estimates.now(self.leaf)
        shown = None if context is None else actor.views.now(context, self.view)
        if context is None or tokens is None or shown is None:
            return None
        if held and theirs is None:
            known = actor.contexts.build_now(opened, held)
            theirs = None if known is None else actor.views.now(known, self.view)
            if theirs is None:
                return None
        return self._viewed_answer(shown, theirs, tokens)

    async def viewed(self) -> Raw:
        """Return the answer, computed in worker threads."""
        views, held = self.actor.views, self._held
        theirs = views.get((held, self.view))
        context, tokens = await self._counted()
        shown = await views.ask(context, self.view)
        if held and theirs is None:
            theirs = await views.ask(await self._built(held), self.view)
        return self._viewed_answer(shown, theirs, tokens)

    def _viewed_answer(self, shown: Viewed, theirs: Viewed | None, tokens: int) -> Raw:
        first: list[bytes] = []
        system = self.system
        if system and self.view.shape == "openai":
            first.append(encode({"role": "system", "content": system}))
        elif system is not UNSET and self.view.shape == "anthropic":
            system = "\n\n".join([*([system] if system else []), *shown.system()]) or None
        unchanged = self.start
        if self.known is not None and theirs is not None:
            same_prompt = self._prompt_seq <= self._held or not first
            if same_prompt and self.known.count == len(first) + theirs.count:
                unchanged = len(first) + shared(shown, theirs)
        start = max(0, unchanged - len(first))
        bodies = first[unchanged:] + shown.bodies(start)
        sources = [None for _ in first[unchanged:]] + shown.sources(start)
        return self._spliced(_Answer(unchanged, bodies, sources, tokens, system))

    @property
    def _prompt_seq(self) -> int:
        """Line that set the current system prompt; 0 for the header's prompt."""
        return self.actor.opened.session.fact_seqs.get("system_prompt", 0)

    def _spliced(self, answer: _Answer) -> Raw:
        tail = {
            "thinking_level": self.settings.thinking_level or "off",
            "model": self.settings.model_name,
            "leaf_id": self.actor.opened.session.id_of(self.leaf),
            "seq": self.seq,
            "etag": self.etag,
            "tokens": answer.tokens,
            "unchanged": answer.unchanged,
        }
        if answer.system is not UNSET:
            tail["system"] = answer.system
        count, size = _fitting(answer.bodies[: self.limit], len(encode(tail)))
        if self.limit is not None:
            session, after = self.actor.opened.session, answer.unchanged + count
            is_last = count == len(answer.bodies)
            cursor = None if is_last else cursor_of(session, (self.leaf,), after, self.pages)
            tail["next_cursor"] = cursor
        elif count < len(answer.bodies):
            raise TooLarge(
                "the context is larger than an answer may be: ask for its pages with limit",
                limit=RESULT_BYTES_MAX,
                size=size,
                pages=True,
            )
        messages, sources = b",".join(answer.bodies[:count]), encode(answer.sources[:count])
        return raw((b'{"messages":[', messages, b'],"sources":', sources, b",", encode(tail)[1:]))


def _fitting(bodies: Sequence[bytes], tail: int) -> tuple[int, int]:
    """Return how many messages an answer with a tail of so many bytes holds, and the bytes of all of them.

    Raises TooLarge if not even the first one fits.
    """
    size, count = _FRAME_BYTES + tail, 0
    for body in bodies:
        size += len(body) + _SOURCE_BYTES
        count += size <= RESULT_BYTES_MAX
    if bodies and not count:
        raise TooLarge(
            "a message of the context is larger than an answer may be: session/entry reads its entry",
            limit=RESULT_BYTES_MAX,
            size=len(bodies[0]),
        )
    return count, size
