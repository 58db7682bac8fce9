"""Connected client: its identity, its access, its subscriptions, leases and presences."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from weakref import WeakSet, WeakValueDictionary

from anyio import Lock, Semaphore
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from sessiond.errors import Cancelled, InvalidParams, Overloaded, SubscriptionNotFound
from sessiond.limits import (
    FEW_SESSIONS,
    OPENINGS_PER_CONNECTION_MAX,
    READS_PER_CONNECTION_MAX,
    RETRY_AFTER_MS,
)
from sessiond.model.deferred import DEFERRED
from sessiond.model.events import Departure, Present
from sessiond.model.ids import MAIN
from sessiond.model.requests import Purpose
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.lease import LeaseRequest
from sessiond.service.log.out_of_sight import out_of_sight
from sessiond.service.log.session_info import HeadInfo, head_infos
from sessiond.service.ports import Partner, Ticket
from sessiond.service.pubsub.subscription import Subscription, Variant
from sessiond.service.service import Service

Access = Literal["write", "read", "status"]


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """Cursor: the last seq that a subscriber saw, with the entry id or epoch seen there."""

    seq: Annotated[int, Meta(ge=0)]
    entry_id: str | UnsetType = UNSET
    epoch: str | UnsetType = UNSET


class Subscribed(Struct, frozen=True, omit_defaults=True):
    """Start of a subscription."""

    epoch: str
    seq: int
    leaf_id: str | None
    heads: list[HeadInfo]
    clients: list[Present] = []
    """Clients that are present, for a subscriber that wants signals; changes are notified."""
    replaced: str | UnsetType = UNSET


class Client:
    """Connection as the service sees it."""

    def __init__(self, service: Service, listener: Partner) -> None:
        self.service = service
        self.open_actors = service.registry.by_id
        """The sessions that are open or about to be, by their ids."""
        self.listener = listener
        self.client_id: str | None = None
        self.name: str | None = None
        self.access: Access = "write"
        self.summarizes: frozenset[Purpose] = frozenset()
        """Purposes for which the client offered to write summaries."""
        self.project: str | None = None
        """The project that this connection resolved a session of, or switched to, last."""
        self.subscriptions: dict[str, tuple[SessionActor, Subscription]] = {}
        # Weak references: presence and leases do not keep a closed session in memory.
        self._present_in: WeakValueDictionary[str, SessionActor] = WeakValueDictionary()
        self._leases_in: WeakValueDictionary[str, SessionActor] = WeakValueDictionary()
        self.readers = WeakSet[object]()
        """The reads of this connection that wait or run; each keeps its session open."""
        self._reads: Semaphore | None = None
        self._openings: Semaphore | None = None
        self._project_turn: Lock | None = None
        self._gone = False
        self._asks_no_more = False

    def knows_better(self, actor: SessionActor, after: After | None) -> bool:
        """Return whether a cursor shows that the session has lost entries under its epoch.

        Only a store that other daemons share loses entries without a trace on this machine. The cursor of a
        client that may only ask for the status of sessions changes no session. Raises InvalidParams,
        StorageError.
        """
        if after is None or self.access == "status" or not actor.opened.journal.is_shared:
            return False
        return after.epoch == actor.opened.epoch and _misfit(actor, after) is not None

    def subscribe(self, actor: SessionActor, after: After | None, want: Variant) -> Subscribed:
        """Subscribe to a session, in place of an earlier subscription of this connection."""
        self.require_here()
        self._require_share(actor)
        opened = actor.opened
        session = opened.session
        replaced = _misfit(actor, after) if after is not None else None
        self.leave(actor.session_id)
        position = session.seq
        if after is not None:
            position = 0 if replaced else after.seq
        subscription = Subscription(self.listener, want, position)
        self.subscriptions[actor.session_id] = (actor, subscription)
        subscription.on_close = lambda: self._let_go(actor.session_id, subscription)
        actor.hub.add(subscription, replay=after is not None)
        return Subscribed(
            epoch=opened.epoch,
            seq=session.seq,
            leaf_id=session.id_of(session.heads[MAIN].leaf),
            heads=head_infos(session),
            clients=actor.hub.presence.clients() if want.signals else [],
            replaced=replaced or UNSET,
        )

    @property
    def reads(self) -> Semaphore:
        """Limiter of this connection's running reads.

        The limit leaves threads and memory to the other connections.
        """
        if self._reads is None:
            self._reads = Semaphore(READS_PER_CONNECTION_MAX)
        return self._reads

    @property
    def openings(self) -> Semaphore:
        """Turns of the openings that this connection asked for; each connection has its own."""
        if self._openings is None:
            self._openings = Semaphore(OPENINGS_PER_CONNECTION_MAX)
        return self._openings

    @property
    def project_turn(self) -> Lock:
        """Lock of the calls that read or set `project`: each sees the result of the call before."""
        if self._project_turn is None:
            self._project_turn = Lock()
        return self._project_turn

    def watches(self, session_id: str) -> bool:
        """Return whether this connection has a subscription on the session."""
        return session_id in self.subscriptions

    def subscription(self, session_id: str) -> Subscription:
        """Return this connection's subscription on a session. Raise SubscriptionNotFound."""
        held = self.subscriptions.get(session_id)
        if held is None or held[1].closed:
            raise SubscriptionNotFound(
                "this connection has no subscription on the session", session_id=session_id
            )
        return held[1]

    def unsubscribe(self, session_id: str) -> None:
        """End the subscription. Raise SubscriptionNotFound."""
        self.subscription(session_id)
        self.leave(session_id)

    def leave(self, session_id: str) -> None:
        """End the subscription on a session, if there is one."""
        held = self.subscriptions.pop(session_id, None)
        if held is not None:
            actor, subscription = held
            actor.hub.remove(subscription)
            actor.touch()

    def release(self, actor: SessionActor) -> None:
        """End this connection's use of a session, and unload the session if no client uses it."""
        self.leave(actor.session_id)
        self.disappear(actor.session_id)
        self.service.registry.unload_unused(actor)

    def acquire(self, actor: SessionActor, wish: LeaseRequest, ticket: Ticket) -> Any:
        """Return a lease that ends with this connection at the latest, or DEFERRED. Raise LeaseHeld."""
        self.require_here()
        self._require_share(actor)
        self._leases_in[actor.session_id] = actor
        if self._asks_no_more:
            wish = replace(wish, wait_ms=0)
        answer = actor.leases.acquire(wish, ticket)
        if answer is DEFERRED:

            def give_up() -> None:
                if actor.leases.give_up(ticket):
                    ticket.fail(Cancelled("cancelled while it waited for the lease"))

            ticket.defer(give_up)
            actor.leases_changed()
        return answer

    def _end_leases(self) -> None:
        for actor in list(self._leases_in.values()):
            actor.leases.leave(self)
            actor.leases_changed()

    def signal(self, actor: SessionActor, body: bytes) -> None:
        """Pass a notification on to the session's subscribers that want signals, at every daemon."""
        actor.messenger.signal(body, self.listener)

    def appear(self, actor: SessionActor, present: Present, *, check: bool) -> None:
        """Set this connection's presence in a session, and notify a change.

        Raises Overloaded, and with `check` InvalidParams for a state that may not follow.
        """
        self.require_here()
        self._require_share(actor)
        actor.messenger.appear(self, present, self.listener, check=check)
        self._present_in[actor.session_id] = actor

    def disappear(self, session_id: str, reason: str | None = None) -> None:
        """End this connection's presence in a session, if there is one, for the given reason."""
        actor = self._present_in.pop(session_id, None)
        if actor is None:
            return
        actor.touch()
        left = None if reason is None else Departure(reason, self.client_id, self.name)
        actor.messenger.disappear(self, None if self._gone else self.listener, left)

    def require_here(self) -> None:
        """Raise Cancelled if the connection has ended."""
        if self._gone:
            # The connection ended while the session was being opened: no later event would end
            # what this call begins.
            raise Cancelled("the connection is gone")

    def _require_share(self, actor: SessionActor) -> None:
        """Raise Overloaded if the connection, or all of them, keep as many sessions open as the limit allows."""
        limit = self.service.bounds.sessions_per_connection
        # Ended leases count until a limit is reached; most connections never reach one.
        count = len(self.subscriptions) + len(self._present_in) + len(self._leases_in)
        kept = self._kept() if count >= min(limit, FEW_SESSIONS) else set[str]()
        if len(kept) >= limit and actor.session_id not in kept:
            raise Overloaded(
                "this connection watches, leases or is present in as many sessions as its limit"
                " allows: leave some, or use another connection",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )
        few = len(kept) < FEW_SESSIONS
        self.service.registry.eviction.require_room_for_others(actor, has_few=few)

    def _kept(self) -> set[str]:
        """Return the sessions that this connection watches, leases or is present in."""
        for leased, actor in list(self._leases_in.items()):
            if not actor.leases.concerns(self):
                del self._leases_in[leased]
        return {*self.subscriptions, *self._present_in, *self._leases_in}

    def require_room_to_read(self, actor: SessionActor) -> None:
        """Raise Overloaded if reads of this connection hold many sessions, and one more takes the last room."""
        if len(self.readers) >= FEW_SESSIONS:
            self.service.registry.eviction.require_room_for_others(actor, has_few=False)

    def _let_go(self, session_id: str, subscription: Subscription) -> None:
        """Drop a subscription on a closed session, which would keep the session in memory."""
        held = self.subscriptions.get(session_id)
        if held is not None and held[1] is subscription:
            del self.subscriptions[session_id]

    def chunk_begun(self) -> None:
        """Gather the sessions that the requests of one read leave to be served, until `chunk_done`."""
        self.service.registry.chunk.client = self

    def chunk_done(self) -> None:
        """Serve the gathered sessions: all requests of one read are queued now."""
        self.service.registry.end_chunk(self)

    def input_ended(self) -> None:
        """Wait for no lease any more, since the client can send no further request.

        Otherwise a client that was killed while it waits would keep its sessions until its turn comes.
        """
        self._asks_no_more = True
        for actor in list(self._leases_in.values()):
            actor.leases.stop_waiting(self)

    def closed(self) -> None:
        """End all subscriptions, leases and presences of the ended connection."""
        self._gone = True
        for session_id in list(self.subscriptions):
            self.leave(session_id)
        self._end_leases()
        for session_id in list(self._present_in):
            self.disappear(session_id)
        self.service.live_catalog.feed.remove(self.listener)
        self.service.states.feed.remove(self.listener, None)
        self.service.forget(self)


def connect(service: Service, listener: Partner) -> Client:
    """Return a new client of the service behind a connection."""
    client = Client(service, listener)
    service.welcome(client)
    return client


def _misfit(actor: SessionActor, after: After) -> str | None:
    """Return the reason why a cursor does not fit this file; None if it fits.

    Raises InvalidParams, and StorageError for a cursor that may fit what only the store has.
    """
    if after.seq == 0:
        return None
    session = actor.opened.session
    is_other_epoch = after.epoch not in {UNSET, actor.opened.epoch}
    if isinstance(after.entry_id, UnsetType) and isinstance(after.epoch, UnsetType):
        raise InvalidParams(
            "after.seq > 0 needs entry_id or epoch beside it: send one, so that a replaced file is"
            " noticed",
            path="after.entry_id",
        )
    why: str | None = None
    if after.seq > session.seq:
        why = "ahead"
    elif isinstance(after.entry_id, UnsetType):
        why = "epoch" if is_other_epoch else None
    elif session.names[after.seq] != after.entry_id:
        why = "epoch"
    if (why or is_other_epoch) and actor.is_out_of_sight:
        # What this daemon does not know may be in the store: other lines, or the epoch of the cursor.
        raise out_of_sight(actor.session_id)
    return why
