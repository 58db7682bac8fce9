"""Queues of prompts that wait for a session's agent: steering ones first, then the other kinds.

Rule 1: a prompt is durable before its sender's answer and before any subscriber learns of it. It lies
in a namespace of the state store that clients cannot write to, and waits over restarts.
Rule 2: an agent takes a prompt by an append of an entry with the prompt's id. The log then proves
that the prompt was taken, so neither a kill nor a retry gives it to the agent twice.
Rule 3: the prompts of a session in memory wait in memory, and go to the disk with the session.
Rule 4: a prompt that was removed without an append is remembered by its id for a while, so that no
retry of its sender brings the prompt back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from sessiond import typed
from sessiond.errors import IdempotencyConflict, Overloaded, SessionNotFound, TooLarge
from sessiond.limits import (
    QUEUE_DONE_KEPT_MS,
    QUEUE_DONE_MAX,
    QUEUED_PROMPTS_MAX,
    RETRY_AFTER_MS,
    STATE_BYTES_MAX,
)
from sessiond.model.digests import key_digest
from sessiond.model.events import Origin
from sessiond.service.actor.actor import SessionActor
from sessiond.service.environment import Environment
from sessiond.service.ports import Ticket
from sessiond.service.states.states import States
from sessiond.state.document import Document, Draft, Write

QUEUES: Final = "sessiond.queues"
"""Namespace of the state store with the prompts of all sessions that have a file."""

_FIRST: Final = "steer"
_encode: Final = msgspec.json.Encoder().encode


class Prompt(Struct, frozen=True):
    """Prompt for an agent as it is stored; `data` is as it was sent."""

    kind: str
    data: Raw
    timestamp: str
    origin: Origin


class WaitingPrompt(Struct, frozen=True):
    """Prompt that no agent has taken."""

    queue_id: str
    kind: str
    data: Raw
    timestamp: str
    origin: Origin


class Queued(Struct, frozen=True):
    """Id of a queued prompt; `duplicate` is true if the prompt waits, or was taken or removed."""

    queue_id: str
    duplicate: bool


class Queues:
    """The waiting prompts of all sessions of a daemon."""

    def __init__(self, states: States, environment: Environment) -> None:
        self._states = states
        self._environment = environment
        self._in_memory: WeakKeyDictionary[SessionActor, Document] = WeakKeyDictionary()

    def add(
        self, actor: SessionActor, queue_id: str, prompt: Prompt
    ) -> Callable[[], Awaitable[Queued]]:
        """Put a prompt into line; the function that is returned waits until the prompt is durable.

        Waiting raises IdempotencyConflict for an id that waits with another prompt, SessionNotFound,
        Overloaded, and the errors of the state store.
        """
        began = actor.opened.created_at
        if not actor.in_memory:
            # Prompts that the disk refused go first: a retry of one of them is a duplicate.
            self.bring_to_disk(actor)
            act = partial(_add, actor=actor, began=began, queue_id=queue_id, prompt=prompt)
            return self._states.submit(QUEUES, act).get
        document = self._in_memory.setdefault(actor, Document(QUEUES))
        draft = self._draft(document)
        queued = _add(draft, actor, began, queue_id, prompt)
        document.commit(draft)

        async def added() -> Queued:
            return queued

        return added

    def bring_to_disk(self, actor: SessionActor) -> Callable[[], Awaitable[None]] | None:
        """Store the prompts of a session that has left the memory; None if there are none to store.

        The function that is returned waits until they are durable. Waiting raises the errors of the
        state store; the prompts wait in memory then, and a later call stores them.
        """
        kept = self._in_memory.get(actor)
        if kept is None or actor.in_memory:
            return None

        now_ms = self._states.now_ms

        def act(draft: Draft) -> None:
            _remember_removed(draft, actor, _removed(kept, actor), now_ms)
            for key, record in kept.records.items():
                if key != _removed_key(actor) and draft.get(key) is None:
                    draft.put(Write(key, record.value))

        outcome = self._states.submit(QUEUES, act)

        async def stored() -> None:
            await outcome.get()
            self._in_memory.pop(actor, None)

        return stored

    def waiting(
        self,
        ticket: Ticket,
        actor: SessionActor,
        done: Collection[str],
        show: Callable[[list[WaitingPrompt]], Any],
    ) -> Any:
        """Remove the prompts `done`, then answer with what `show` makes of those that wait.

        They are in the order in which to take them. Raises Overloaded.
        """
        kept, now_ms = self._in_memory.get(actor), self._states.now_ms
        if kept is not None and done:
            draft = self._draft(kept)
            _drop(draft, actor, done, now_ms)
            kept.commit(draft)

        def look(document: Document) -> Any:
            found = self._all_waiting(document, actor)
            return show([one for _, one in sorted(found, key=_place)])

        def act(draft: Draft) -> Any:
            _drop(draft, actor, done, now_ms)
            return look(draft)

        if done:
            return self._states.change(ticket, QUEUES, act)
        return self._states.ask(ticket, QUEUES, look)

    async def withdraw(self, session_id: str, created_at: str, queue_id: str) -> None:
        """Remove a prompt as if it had never waited. Raises the errors of the state store."""
        key = f"{_name(session_id, created_at)}/{queue_id}"

        def act(draft: Draft) -> None:
            draft.delete(key, msgspec.UNSET)

        await self._states.carry_out(QUEUES, act)

    async def kinds(self, ticket: Ticket, actor: SessionActor) -> Counter[str]:
        """Return for a request how many prompts of each kind wait. Raises the errors of the state store."""

        def look(document: Document) -> Counter[str]:
            return Counter(one.kind for _, one in self._all_waiting(document, actor))

        found: Counter[str] = await self._states.look(ticket, QUEUES, look)
        return found

    async def forget(self, session_id: str, revision: int) -> None:
        """Remove the prompts of every session of an id, up to a revision: the session was purged.

        Raises the errors of the state store.
        """
        prefix = f"{key_digest(session_id)}."

        def act(draft: Draft) -> None:
            for key, record in list(draft.records.items()):
                if key.startswith(prefix) and record.revision <= revision:
                    draft.delete(key, msgspec.UNSET)

        await self._states.carry_out(QUEUES, act)

    def _all_waiting(
        self, document: Document, actor: SessionActor
    ) -> list[tuple[int, WaitingPrompt]]:
        """Return the waiting prompts on the disk and in memory, each with its revision."""
        found = [*_waiting(document, actor)]
        if (kept := self._in_memory.get(actor)) is not None:
            # The disk has them as well once they were brought there.
            stored = {one.queue_id for _, one in found}
            found += [one for one in _waiting(kept, actor) if one[1].queue_id not in stored]
        return found

    def _draft(self, document: Document) -> Draft:
        moment = self._states.documents.moment(self._environment.now())
        return Draft(document, moment, bytes_max=STATE_BYTES_MAX)


def _add(draft: Draft, actor: SessionActor, began: str, queue_id: str, prompt: Prompt) -> Queued:
    if actor.opened.created_at != began:
        # Another session has taken the id since the call.
        raise SessionNotFound("the session was deleted", session_id=actor.session_id)
    key = f"{_prefix(actor)}{queue_id}"
    _drop_taken(draft, actor)
    if _is_taken(actor, queue_id):
        return Queued(queue_id, duplicate=True)
    found = draft.get(key)
    if found is not None:
        stored = typed.decode(found.value, Prompt)
        if (stored.kind, bytes(stored.data)) != (prompt.kind, bytes(prompt.data)):
            text = "another prompt waits under this id: choose another id"
            raise IdempotencyConflict(text, entry_id=queue_id)
        return Queued(queue_id, duplicate=True)
    if queue_id in _removed(draft, actor):
        return Queued(queue_id, duplicate=True)
    if sum(1 for _ in _waiting(draft, actor)) >= QUEUED_PROMPTS_MAX:
        raise Overloaded(
            "too many prompts wait for this session: its agent has to take some first",
            limit=QUEUED_PROMPTS_MAX,
            retry_after_ms=RETRY_AFTER_MS,
        )
    draft.put(Write(key, Raw(_encode(prompt))))
    return Queued(queue_id, duplicate=False)


def _drop(draft: Draft, actor: SessionActor, ids: Collection[str], now_ms: int) -> None:
    """Remove prompts, and remember the ids of those that waited."""
    prefix = _prefix(actor)
    dropped = [one for one in ids if draft.delete(f"{prefix}{one}", msgspec.UNSET)]
    _remember_removed(draft, actor, dropped, now_ms)


def _removed(document: Document, actor: SessionActor) -> list[str]:
    """Return the ids of the prompts that were removed of late, the latest last."""
    record = document.get(_removed_key(actor))
    return [] if record is None else typed.decode(record.value, list[str])


def _remember_removed(draft: Draft, actor: SessionActor, ids: Collection[str], now_ms: int) -> None:
    """Add ids to those of removed prompts; the oldest ones make room."""
    before = _removed(draft, actor)
    if set(ids) <= set(before):
        return
    known = [one for one in before if one not in ids]
    value = Raw(_encode([*known, *ids][-QUEUE_DONE_MAX:]))
    # Many sessions' ids are dropped at one time, so that one write drops them.
    over_ms = (now_ms // QUEUE_DONE_KEPT_MS + 2) * QUEUE_DONE_KEPT_MS
    # A prompt is removed also where the store has no room for its id.
    with suppress(TooLarge):
        draft.put(Write(_removed_key(actor), value, expires_ms=over_ms))


def _drop_taken(draft: Draft, actor: SessionActor) -> None:
    """Remove the prompts that the session's log has."""
    prefix = _prefix(actor)
    for key in [key for key in draft.records if key.startswith(prefix)]:
        if _is_taken(actor, key.removeprefix(prefix)):
            draft.delete(key, msgspec.UNSET)


def _waiting(document: Document, actor: SessionActor) -> Iterator[tuple[int, WaitingPrompt]]:
    """Yield the waiting prompts of a session, each with its revision."""
    prefix = _prefix(actor)
    for key, record in document.records.items():
        queue_id = key.removeprefix(prefix)
        if key.startswith(prefix) and not _is_taken(actor, queue_id):
            prompt = typed.decode(record.value, Prompt)
            yield record.revision, WaitingPrompt(queue_id, *astuple(prompt))


def _place(found: tuple[int, WaitingPrompt]) -> tuple[bool, int]:
    revision, prompt = found
    return prompt.kind != _FIRST, revision


def _is_taken(actor: SessionActor, queue_id: str) -> bool:
    return queue_id in actor.opened.session.ids


def _prefix(actor: SessionActor) -> str:
    """Return what the keys of a session's prompts begin with: another session of its id has other keys."""
    return f"{_name(actor.session_id, actor.opened.created_at)}/"


def _removed_key(actor: SessionActor) -> str:
    """Return the key of the ids of removed prompts, which an older daemon takes for no prompt."""
    return f"{_name(actor.session_id, actor.opened.created_at)}~removed"


def _name(session_id: str, created_at: str) -> str:
    return f"{key_digest(session_id)}.{key_digest(created_at)}"
