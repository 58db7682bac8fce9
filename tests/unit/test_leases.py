"""The table of leases against a plain model, under every order of requests and times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sessiond.dialects.native.dialect import NATIVE
from sessiond.dialects.pi.dialect import PI
from sessiond.errors import (
    HeadNotFound,
    InvalidParams,
    LeaseHeld,
    LeaseLost,
    Overloaded,
    SessiondError,
)
from sessiond.limits import LEASE_WAITERS_MAX, LEASES_MAX
from sessiond.model.deferred import DEFERRED
from sessiond.service.actor.lease import Lease, LeaseRequest
from sessiond.service.actor.leases import Leases
from sessiond.testing.daemon import standing_environment

HEADS = st.sampled_from(["main", "side", "new"])
CLIENTS = st.sampled_from(["a", "b", "c"])
SECONDS = st.integers(1, 5)
ANA, BO = (SimpleNamespace(client_id=name, name=None) for name in "ab")


class Asking:
    """A call that may be answered later."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.got: Lease | SessiondError | None = None
        self.sent = False

    def answer(self, lease: Lease) -> None:
        assert self.got is None
        self.got = lease

    def fail(self, error: SessiondError) -> None:
        assert self.got is None
        self.got = error

    def flush(self) -> None:
        assert self.got is not None
        self.sent = True


def call_of(client: Any) -> Any:
    """Return a call with the members that the table uses."""
    return Asking(client)


def outcome(act: Callable[[], Any]) -> tuple[Any, SessiondError | None]:
    """Return the result of a call, or its refusal."""
    try:
        return act(), None
    except SessiondError as refusal:
        return None, refusal


class Clock:
    """Seconds that pass when told to, and the environment that shows them."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.environment = msgspec.structs.replace(
            standing_environment(), monotonic=lambda: self.seconds
        )


class AgainstTheModel(RuleBasedStateMachine):
    """A head's holder in the model: (client, lease id, end), and a line of who waits until when."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.leases = Leases(self.clock.environment, count(1).__next__, NATIVE.rules)
        self.clients = {name: SimpleNamespace(client_id=name, name=None) for name in "abc"}
        self.holders: dict[str, tuple[str, str, float]] = {}
        self.line: list[tuple[str, str, int, float, Any]] = []
        self.ids: list[str] = ["nobody's"]
        self.epoch = 0

    # -- the model -----------------------------------------------------------------

    def holder(self, head: str) -> tuple[str, str, float] | None:
        held = self.holders.get(head)
        return held if held is not None and held[2] > self.clock.seconds else None

    def given(self, head: str, client: str, ttl: int, got: Any) -> None:
        assert isinstance(got, Lease)
        assert got.epoch > self.epoch
        assert got.lease_id not in self.ids
        self.epoch = got.epoch
        self.ids.append(got.lease_id)
        self.holders[head] = (client, got.lease_id, self.clock.seconds + ttl)

    def served(self) -> None:
        """Check all waiters, first come, first served: granted, timed out, or still in line."""
        left = []
        for head, client, ttl, until, asking in self.line:
            if self.holder(head) is None:
                self.given(head, client, ttl, asking.got)
                assert asking.sent
            elif until <= self.clock.seconds:
                assert isinstance(asking.got, LeaseHeld)
                assert asking.sent
            else:
                assert asking.got is None
                left.append((head, client, ttl, until, asking))
        self.line = left

    # -- what happens ----------------------------------------------------------------

    @rule(head=HEADS, client=CLIENTS, ttl=SECONDS, wait=st.sampled_from([0, 1, 3, 9]))
    def acquire(self, head: str, client: str, ttl: int, wait: int) -> None:
        asking = call_of(self.clients[client])
        wish = LeaseRequest(head, ttl * 1000, wait * 1000)
        got, refusal = outcome(lambda: self.leases.acquire(wish, asking))
        self.served()
        if isinstance(refusal, LeaseHeld):
            held = self.holder(head)
            assert held is not None
            assert not wait
            assert refusal.data()["holder"].client_id == held[0]
            return
        if got is DEFERRED:
            assert wait
            assert self.holder(head) is not None
            self.line.append((head, client, ttl, self.clock.seconds + wait, asking))
        else:
            assert self.holder(head) is None
            self.given(head, client, ttl, got)

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: int) -> None:
        self.clock.seconds += seconds

    @rule()
    def it_is_served(self) -> None:
        self.leases.serve()
        self.served()

    @rule(head=HEADS, data=st.data())
    def somebody_moves_a_head(self, head: str, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from([None, *self.ids]))
        held = self.holder(head)
        _, refusal = outcome(lambda: self.leases.require(head, lease_id))
        match refusal:
            case None:
                assert lease_id == (held[1] if held is not None else None)
            case LeaseHeld():
                assert held is not None
                assert held[1] != lease_id
                assert refusal.data()["retryable"] is (lease_id is None)
            case InvalidParams():
                leased = refusal.data()["head"]
                assert leased != head
                assert (self.holder(leased) or "  ")[1] == lease_id
            case _:
                assert isinstance(refusal, LeaseLost)
                assert held is None
                assert lease_id is not None

    @rule(ttl=SECONDS, data=st.data())
    def renew(self, ttl: int, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(self.ids))
        mine = [head for head in self.holders if (self.holder(head) or "  ")[1] == lease_id]
        lease, refusal = outcome(lambda: self.leases.renew(lease_id, ttl * 1000, call_of("")))
        if refusal is not None:
            assert isinstance(refusal, LeaseLost)
            assert not mine
        else:
            assert lease.lease_id == lease_id
            (head,) = mine
            self.holders[head] = (self.holders[head][0], lease_id, self.clock.seconds + ttl)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(self.ids))
        self.leases.release(lease_id, call_of(""), None)
        self.holders = {head: held for head, held in self.holders.items() if held[1] != lease_id}

    @rule(client=CLIENTS)
    def a_connection_ends(self, client: str) -> None:
        self.leases.leave(self.clients[client])
        self.holders = {head: held for head, held in self.holders.items() if held[0] != client}
        self.line = [place for place in self.line if place[1] != client]

    @rule(data=st.data())
    def somebody_gives_up(self, data: st.DataObject) -> None:
        if self.line:
            place = data.draw(st.sampled_from(self.line))
            assert self.leases.give_up(place[4])
            assert not self.leases.give_up(place[4])
            self.line.remove(place)

    @invariant()
    def it_knows_whether_it_is_used_and_when_to_look_again(self) -> None:
        held = [head for head in self.holders if self.holder(head) is not None]
        assert len(self.leases.waiting) == len(self.line)
        ends = []
        for head, _, _, until, _ in self.line:
            at = self.holders.get(head)
            ends.append(min(until, at[2] if at is not None else 0.0))
        due = max(0.0, min(ends) - self.clock.seconds) if ends else float("inf")
        assert self.leases.due_in() == due
        assert self.leases.in_use == bool(held or self.line)
        assert [self.leases.is_held(head) for head in ("main", "side", "new")] == [
            head in held for head in ("main", "side", "new")
        ]


TestAgainstTheModel = AgainstTheModel.TestCase


def test_leases_and_places_in_line_are_bounded() -> None:
    clock = Clock()
    leases = Leases(clock.environment, count(1).__next__, NATIVE.rules)
    clients = [SimpleNamespace(client_id=f"c{n}", name=None) for n in range(8)]
    client = SimpleNamespace(client_id="last", name=None)
    for number in range(LEASES_MAX):
        leases.acquire(LeaseRequest(f"h{number}", 1000), call_of(clients[number % 8]))
    with pytest.raises(Overloaded):
        leases.acquire(LeaseRequest("one-more", 1000), call_of(client))
    waiting = [call_of(clients[number % 8]) for number in range(LEASE_WAITERS_MAX)]
    for asking in waiting:
        assert leases.acquire(LeaseRequest("h0", 1000, 5000), asking) is DEFERRED
    with pytest.raises(Overloaded):
        leases.acquire(LeaseRequest("h0", 1000, 5000), call_of(client))
    # What ran out makes room.
    clock.seconds = 1.0
    assert isinstance(leases.acquire(LeaseRequest("one-more", 1000), call_of(client)), Lease)
    assert isinstance(waiting[0].got, Lease)


def test_who_waits_is_told_when_the_session_is_closed() -> None:
    leases = Leases(Clock().environment, count(1).__next__, NATIVE.rules)
    leases.acquire(LeaseRequest("main", 1000), call_of(ANA))
    asking = call_of(BO)
    assert leases.acquire(LeaseRequest("main", 1000, 1000), asking) is DEFERRED
    leases.close()
    assert isinstance(asking.got, LeaseHeld)
    assert not leases.in_use


def test_a_file_of_another_program_has_one_head_to_lease() -> None:
    leases = Leases(Clock().environment, count(1).__next__, PI.rules)
    assert isinstance(
        leases.acquire(LeaseRequest("main", 1000), call_of(ANA)),
        Lease,
    )
    with pytest.raises(HeadNotFound):
        leases.acquire(LeaseRequest("side", 1000), call_of(ANA))
