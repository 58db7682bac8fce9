"""A connected client: who it is, what it may do, what it watches."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from weakref import WeakValueDictionary

from anyio import CapacityLimiter
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from sessiond.errors import Cancelled, InvalidParams, Overloaded, SubscriptionNotFound
from sessiond.limits import READS_PER_CONNECTION_MAX, RETRY_AFTER_MS
from sessiond.model.events import Present
from sessiond.model.ids import MAIN
from sessiond.service.actor.actor import Host
from sessiond.service.actor.inbox import LATER
from sessiond.service.actor.lease import Wish
from sessiond.service.log.session_info import HeadInfo, head_infos
from sessiond.service.ports import Partner, Ticket
from sessiond.service.pubsub.subscription import Subscription, Variant
from sessiond.service.service import Service

__all__ = ["Access", "After", "Client", "Subscribed", "connect"]

Access = Literal["write", "read", "status"]


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """A cursor: the last seq a subscriber saw, and what it saw there."""

    seq: Annotated[int, Meta(ge=0)]
    entry_id: str | UnsetType = UNSET
    epoch: str | UnsetType = UNSET


class Subscribed(Struct, frozen=True, omit_defaults=True):
    """Where a subscription begins."""

    epoch: str
    seq: int
    leaf_id: str | None
    heads: list[HeadInfo]
    clients: list[Present] = []
    """Who is present, for who wants signals; what changes is told."""
    replaced: str | UnsetType = UNSET


class Client:
    """One connection, as the service sees it."""

    def __init__(self, service: Service, listener: Partner) -> None:
        self.service = service
        self.listener = listener
        self.client_id: str | None = None
        self.name: str | None = None
        self.access: Access = "write"
        self.summarizes = False
        """Whether it offered to write summaries."""
        self.subscriptions: dict[str, tuple[Host, Subscription]] = {}
        # Weak: who is present does not keep a session that was closed under it.
        self._present_in: WeakValueDictionary[str, Host] = WeakValueDictionary()
        self._leases_in: WeakValueDictionary[str, Host] = WeakValueDictionary()
        self._reads: CapacityLimiter | None = None
        self._gone = False
        self._asks_no_more = False

    def subscribe(self, host: Host, after: After | None, want: Variant) -> Subscribed:
        """Watch a session; a subscription on it that this connection had is replaced."""
        self.require_here()
        self._require_share(host.session_id)
        opened = host.opened
        session = opened.session
        replaced = _misfit(host, after) if after is not None else None
        self.leave(host.session_id)
        position = session.seq
        if after is not None:
            position = 0 if replaced else after.seq
        subscription = Subscription(self.listener, want, position)
        self.subscriptions[host.session_id] = (host, subscription)
        subscription.on_close = lambda: self._let_go(host.session_id, subscription)
        host.hub.add(subscription, replay=after is not None)
        return Subscribed(
            epoch=opened.epoch,
            seq=session.seq,
            leaf_id=session.id_of(session.heads[MAIN].leaf),
            heads=head_infos(session),
            clients=host.hub.presence.clients() if want.signals else [],
            replaced=replaced or UNSET,
        )

    @property
    def reads(self) -> CapacityLimiter:
        """Places for reads under way: one who asks a thousand leaves threads and memory to others."""
        if self._reads is None:
            self._reads = CapacityLimiter(READS_PER_CONNECTION_MAX)
        return self._reads

    def watches(self, session_id: str) -> bool:
        """Whether this connection has a subscription on the session."""
        return session_id in self.subscriptions

    def subscription(self, session_id: str) -> Subscription:
        """This connection's subscription on a session. Raises SubscriptionNotFound."""
        held = self.subscriptions.get(session_id)
        if held is None or held[1].closed:
            raise SubscriptionNotFound(
                "this connection has no subscription on the session", session_id=session_id
            )
        return held[1]

    def unsubscribe(self, session_id: str) -> None:
        """Stop watching. Raises SubscriptionNotFound."""
        self.subscription(session_id)
        self.leave(session_id)

    def leave(self, session_id: str) -> None:
        """Stop watching a session, if it was watched."""
        held = self.subscriptions.pop(session_id, None)
        if held is not None:
            host, subscription = held
            host.hub.remove(subscription)
            host.touch()

    def acquire(self, host: Host, wish: Wish, ticket: Ticket) -> Any:
        """A lease that ends with this connection at the latest, or LATER. Raises LeaseHeld."""
        self.require_here()
        self._require_share(host.session_id)
        self._leases_in[host.session_id] = host
        if self._asks_no_more:
            wish = replace(wish, wait_ms=0)
        answer = host.leases.acquire(wish, ticket)
        if answer is LATER:

            def give_up() -> None:
                if host.leases.give_up(ticket):
                    ticket.fail(Cancelled("cancelled while it waited for the lease"))

            ticket.defer(give_up)
            host.leases_changed()
        return answer

    def _end_leases(self) -> None:
        for host in list(self._leases_in.values()):
            host.leases.leave(self)
            host.leases_changed()

    def signal(self, host: Host, body: bytes) -> None:
        """Pass a notification on to whoever watches the session and wants signals."""
        host.hub.signal(body, self.listener)

    def appear(self, host: Host, present: Present) -> None:
        """Be present in a session in this state, and tell if that is news. Raises Overloaded."""
        self.require_here()
        self._require_share(host.session_id)
        hub = host.hub
        if hub.presence.set(self, present):
            hub.tell_presence(self.listener)
        self._present_in[host.session_id] = host

    def disappear(self, session_id: str) -> None:
        """Be no longer present in a session, if it was."""
        host = self._present_in.pop(session_id, None)
        if host is None:
            return
        host.touch()
        if host.hub.presence.clear(self):
            host.hub.tell_presence(None if self._gone else self.listener)

    def require_here(self) -> None:
        """Raises Cancelled when the connection has ended."""
        if self._gone:
            # It left while the session was being opened; nobody would ever end what it begins.
            raise Cancelled("the connection is gone")

    def _require_share(self, session_id: str) -> None:
        """Raises Overloaded when it keeps as many sessions open as one connection may."""
        limit = self.service.bounds.sessions_per_connection
        # A lease that is over counts until somebody asks: most connections never come so far.
        if len(self.subscriptions) + len(self._present_in) + len(self._leases_in) < limit:
            return
        for leased, host in list(self._leases_in.items()):
            if not host.leases.concerns(self):
                del self._leases_in[leased]
        kept = {*self.subscriptions, *self._present_in, *self._leases_in}
        if len(kept) >= limit and session_id not in kept:
            raise Overloaded(
                "this connection watches, leases or is present in as many sessions as it may; "
                "leave some, or use another connection",
                limit=limit,
                retry_after_ms=RETRY_AFTER_MS,
            )

    def _let_go(self, session_id: str, subscription: Subscription) -> None:
        """The session was closed: nobody keeps it in memory for a watcher that is told nothing."""
        held = self.subscriptions.get(session_id)
        if held is not None and held[1] is subscription:
            del self.subscriptions[session_id]

    def chunk_done(self) -> None:
        """Everything of one read was asked: sessions without a disk are served now."""
        self.service.hosts.run_ready()

    def input_ended(self) -> None:
        """Nothing more is asked: it waits for no lease, which would end with it at once.

        Else a client that was killed while it waits would keep what it has until its turn comes.
        """
        self._asks_no_more = True
        for host in list(self._leases_in.values()):
            host.leases.stop_waiting(self)

    def closed(self) -> None:
        """The connection ended: everything it watched or leased is let go."""
        self._gone = True
        for session_id in list(self.subscriptions):
            self.leave(session_id)
        self._end_leases()
        for session_id in list(self._present_in):
            self.disappear(session_id)
        self.service.roster.feed.remove(self.listener)
        self.service.forget(self)


def connect(service: Service, listener: Partner) -> Client:
    """Return a new client of the service behind a connection."""
    client = Client(service, listener)
    service.welcome(client)
    return client


def _misfit(host: Host, after: After) -> str | None:
    """Why a cursor does not fit this file; None when it does."""
    if after.seq == 0:
        return None
    session = host.opened.session
    if isinstance(after.entry_id, UnsetType) and isinstance(after.epoch, UnsetType):
        raise InvalidParams(
            "after.seq > 0 needs entry_id or epoch, else a replaced file goes unnoticed",
            path="after.entry_id",
        )
    if after.seq > session.seq:
        return "ahead"
    if isinstance(after.entry_id, UnsetType):
        return None if after.epoch == host.opened.epoch else "epoch"
    return None if session.names[after.seq] == after.entry_id else "epoch"
