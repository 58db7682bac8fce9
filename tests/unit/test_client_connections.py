"""The client's core: when it connects again, and how it subscribes over lost connections."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond_client import (
    BlockingCatalogSubscription,
    BlockingClient,
    BlockingOffer,
    BlockingStateSubscription,
    BlockingSubscription,
    CatalogChanged,
    CatalogSubscription,
    Changed,
    Client,
    ConnectionLost,
    Cursor,
    EntryEvent,
    Flushed,
    Lagged,
    Notice,
    Offer,
    Presence,
    Present,
    ProtocolViolation,
    Replaced,
    RpcError,
    Signal,
    StateChanged,
    StateSubscription,
    Subscription,
    Synced,
    Timeout,
    limits,
)
from sessiond_client.conversation import Setup, backoff
from sessiond_client.driver import CallDriver
from sessiond_client.exchange import Exchange
from sessiond_client.feed import Feed
from sessiond_client.reach import Port, Reach
from sessiond_client.steps import Wait
from sessiond_client.stream import HintFeed, Stream
from tests.kit.client_rig import DRAINING, OVERLOADED, SETUP, exchange_with, new_call
from tests.kit.far_end import Daemon
from tests.kit.limits import set_limits

pytestmark = pytest.mark.platform


def feed_with(**options: Any) -> tuple[Feed, Daemon]:
    feed = Feed(SETUP, "s", options, deadline=30.0)
    return feed, Daemon(feed)


def taken(feed: Stream[Any]) -> list[Any]:
    """Return what the consumer gets: the seqs of entry events, and all other events unchanged."""
    events: list[Any] = []
    while (event := feed.take()) is not None:
        events.append(event.seq if isinstance(event, EntryEvent) else event)
    return events


# --- connections


def test_the_backoff_doubles_is_capped_and_is_spread() -> None:
    assert [backoff(n, lambda: 1.0) for n in (1, 2, 3)] == [0.05, 0.1, 0.2]
    assert backoff(1000, lambda: 1.0) == limits.BACKOFF_LONGEST
    assert backoff(1000, lambda: 0.0) == limits.BACKOFF_LONGEST / 2


def test_only_a_connection_that_spoke_ends_the_backoff() -> None:
    call = new_call("session/get")
    exchange, daemon = exchange_with(call)
    for attempt in (1, 2, 3):
        daemon.connect()
        daemon.lose()
        assert exchange.connect_at == backoff(attempt, lambda: 1.0)
    daemon.connect()
    daemon.say(method="server/draining", params={})
    daemon.lose()
    assert exchange.connect_at == backoff(1, lambda: 1.0)


def test_a_daemon_that_accepts_to_refuse_is_not_asked_faster() -> None:
    exchange = Exchange(Setup(hello={"client_id": "me"}, random=lambda: 1.0))
    daemon = Daemon(exchange)
    exchange.submit(new_call("session/get"))
    for attempt in (1, 2, 3):
        daemon.connect()
        daemon.refuse(0, OVERLOADED)
        daemon.lose()
        assert exchange.connect_at == backoff(attempt, lambda: 1.0)


class BrokenPort:
    """A connection that takes nothing any more and still holds what the daemon said last."""

    def __init__(self, *chunks: bytes | None) -> None:
        self.chunks = list(chunks)

    def send(self, buffers: list[memoryview]) -> int:
        raise BrokenPipeError

    def receive(self) -> bytes | None:
        return self.chunks.pop(0)

    def close(self) -> None:
        assert not self.chunks


class NoWaiter:
    lock = nullcontext()
    now = 0.0

    def clock(self) -> float:
        return self.now

    def interrupt(self) -> None:
        raise AssertionError("nobody waits")

    def release(self) -> None:
        pass

    def soon(self, act: Callable[[], None]) -> None:
        act()

    def leave_to_parent(self) -> None:
        pass


@pytest.mark.parametrize("end", [b"", None])
def test_what_the_daemon_said_before_it_went_is_read_although_nothing_can_be_sent(
    end: bytes | None,
) -> None:
    answer = b'{"id":1,"result":{}}\n'
    ports = iter([BrokenPort(answer[:7], answer[7:], end)])
    connect = cast("Callable[[], Port]", lambda: next(ports))
    exchange, call = Exchange(SETUP), new_call("branch", {})
    driver = CallDriver(exchange, Reach(connect, None), NoWaiter())
    assert list(driver.open(0.0)) == []
    exchange.submit(call)
    call.sent()
    later = new_call("branch", {}, deadline=9.0)
    (wait,) = [step for step, _ in zip(driver.drive(later), range(1), strict=False)]
    assert call.is_settled
    assert not call.error
    assert wait == Wait(None, write=False, until=exchange.connect_at)


def test_a_client_that_finds_no_daemon_in_time_says_so_and_does_not_spin() -> None:
    def connect() -> Port:
        raise FileNotFoundError("no socket")

    waiter = NoWaiter()
    driver = CallDriver(Exchange(SETUP), Reach(connect, None), waiter)
    steps = driver.open(0.12)
    for until in (0.05, 0.12):
        assert next(steps) == Wait(None, write=False, until=until)
        waiter.now = until
    with pytest.raises(ConnectionLost, match="no socket"):
        next(steps)


def test_who_the_client_is_is_said_first_on_every_connection() -> None:
    exchange = Exchange(Setup(hello={"client_id": "me"}, random=lambda: 1.0))
    daemon = Daemon(exchange)
    exchange.submit(new_call("session/get"))
    for _ in range(2):
        methods = [(request["method"], request["id"]) for request in daemon.connect()]
        assert methods == [("initialize", 0), ("session/get", 1)]
        daemon.lose()


def test_a_daemon_that_refuses_the_client_refuses_its_calls() -> None:
    exchange = Exchange(Setup(hello={"access": "read"}, random=lambda: 1.0))
    daemon, call = Daemon(exchange), new_call("session/get")
    exchange.submit(call)
    daemon.connect()
    daemon.refuse(0, {"code": -32010, "kind": "version_unsupported", "retryable": False})
    assert exchange.broken is not None
    with pytest.raises(RpcError):
        call.outcome()


# --- subscriptions


def test_a_subscription_goes_on_after_the_last_entry_it_saw() -> None:
    feed, daemon = feed_with()
    (request,) = daemon.connect()
    assert request["params"] == {"session_id": "s", "signals": False}
    daemon.answer(1, {"epoch": "A", "seq": 4})
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 4, "epoch": "A"}
    daemon.answer(1, {"epoch": "A", "seq": 4})
    daemon.event(5)
    daemon.event(7)  # a line that is no entry has a seq and no event
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 7, "entry_id": "e7"}
    daemon.answer(1, {"epoch": "A", "seq": 9})
    for seq in (6, 7, 8, 9):
        daemon.event(seq)
    daemon.notify("synced", seq=9)
    assert taken(feed) == [5, 7, 8, 9, Synced("s", 9)]
    assert feed.position == Cursor(9, "e9", "A")


def test_what_is_the_clients_own_is_not_sent_with_a_subscription() -> None:
    _, daemon = feed_with(timeout=5.0, on_progress=print, types=["message"])
    (request,) = daemon.connect()
    assert request["params"] == {"session_id": "s", "signals": False, "types": ["message"]}


def test_events_before_the_answer_are_held_until_it_is_known_what_they_mean() -> None:
    feed, daemon = feed_with(after=Cursor(2, "e2"), types=["message"])
    (request,) = daemon.connect()
    assert request["params"]["types"] == ["message"]
    daemon.event(1, epoch="B")
    daemon.event(2, epoch="B")
    assert taken(feed) == []
    daemon.answer(1, {"epoch": "B", "seq": 2, "replaced": "ahead"})
    assert taken(feed) == [Replaced("s", "B", "ahead"), 1, 2]


def test_events_without_end_before_the_answer_end_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, HELD_BYTES_MAX=300)
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.event(1)
    assert feed.broken is None
    daemon.event(2)
    daemon.event(3)
    assert isinstance(feed.broken, ProtocolViolation)
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 0}
    assert taken(feed) == []


def test_a_replaced_log_is_told_once_and_read_from_its_start() -> None:
    feed, daemon = feed_with(after={"seq": 0})
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.notify("replaced", epoch="B", reason="truncated")
    daemon.notify("replaced", epoch="B", reason="truncated")
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 0}
    daemon.answer(1, {"epoch": "B", "seq": 1})
    daemon.event(1, epoch="B")
    assert taken(feed) == [1, Replaced("s", "B", "truncated"), 1]
    daemon.notify("replaced", epoch="C", reason="epoch")
    assert taken(feed) == [Replaced("s", "C", "epoch")]
    assert feed.position == Cursor(0, epoch="C")


def test_a_consumer_that_was_slow_learns_it_and_misses_nothing() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    daemon.event(1)
    daemon.event(2)
    daemon.notify("lagged", seq=1, dropped_signals=3)
    daemon.event(2)
    daemon.event(3)
    daemon.notify("closed", reason="deleted")
    closed = Notice("s", "session/closed", {"session_id": "s", "reason": "deleted"})
    assert taken(feed) == [1, 2, Lagged("s", 1, 3), 3, closed]


def test_a_changed_state_comes_typed_and_is_a_notice_still() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    daemon.notify("changed", archived=True, read_only=True, read_only_reason="bad_line", new=1)
    daemon.notify("changed", archived=False, read_only=False, read_only_reason=None)
    damaged, mended = taken(feed)
    assert isinstance(damaged, Changed)
    assert isinstance(damaged, Notice)
    assert (damaged.archived, damaged.read_only, damaged.read_only_reason) == (
        True,
        True,
        "bad_line",
    )
    assert (damaged.session_id, damaged.method) == ("s", "session/changed")
    assert damaged.params["new"] == 1
    assert isinstance(mended, Changed)
    assert (mended.archived, mended.read_only, mended.read_only_reason) == (False, False, None)


def test_signals_and_presence_come_to_who_asks_for_them() -> None:
    _, daemon = feed_with(after=0)
    (request,) = daemon.connect()
    assert request["params"]["signals"] is False
    feed, daemon = feed_with(after=0, signals=True)
    (request,) = daemon.connect()
    assert request["params"]["signals"] is True
    here = {"access": "read", "state": "typing", "since": "2026-01-15T10:30:00.000Z", "new": 1}
    daemon.answer(1, {"epoch": "A", "seq": 1, "clients": [here]})
    daemon.event(1)
    daemon.notify("signal", kind="delta", data={"text": "x"}, origin={"client_id": "a"})
    daemon.notify("presence", clients=[])
    there = Present("typing", "read", "2026-01-15T10:30:00.000Z")
    first, one, signal, last = taken(feed)
    assert (first, one, last) == (Presence("s", [there]), 1, Presence("s", []))
    assert isinstance(signal, Signal)
    assert (signal.kind, signal.data, bytes(signal.raw)) == (
        "delta",
        {"text": "x"},
        b'{"text":"x"}',
    )
    assert signal.origin == {"client_id": "a"}


def test_who_was_present_before_a_connection_was_lost_is_not_believed_to_be_there() -> None:
    feed, daemon = feed_with(after=0, signals=True)
    for clients in ([{"state": "typing"}], [], []):
        daemon.connect()
        daemon.answer(1, {"epoch": "A", "seq": 0, "clients": clients})
        daemon.lose()
    # An empty presence is reported only once.
    assert taken(feed) == [Presence("s", [Present("typing")]), Presence("s", [])]


def test_a_subscription_that_is_refused_for_now_is_asked_for_again() -> None:
    feed, daemon = feed_with()
    daemon.connect()
    daemon.refuse(1, DRAINING)
    assert isinstance(feed.broken, RpcError)
    daemon.lose()
    assert feed.connect_at == 0.7
    assert not feed.is_over
    assert len(daemon.connect()) == 1


def test_a_subscription_that_is_refused_ends_after_what_it_still_holds() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.lose()
    daemon.connect()
    daemon.refuse(1, {"code": -32020, "kind": "session_not_found"})
    assert feed.is_over
    event = feed.take()
    assert isinstance(event, EntryEvent)
    assert event.name.type == "message"
    assert event.entry["message"] == {"role": "user"}
    with pytest.raises(RpcError):
        feed.take()
    assert feed.take() is None


def test_only_the_first_answer_has_a_deadline() -> None:
    feed, daemon = feed_with()
    assert feed.wake_at() == 30.0
    feed.lost(FileNotFoundError("no socket"), 0.0)
    feed.tick(29.9)
    assert not feed.is_over
    feed.tick(30.0)
    with pytest.raises(Timeout, match="no socket"):
        feed.take()
    feed, daemon = feed_with()
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    feed.tick(1000.0)
    assert not feed.is_over
    assert feed.wake_at() == math.inf


def test_a_session_that_was_closed_under_a_subscription_is_asked_for_again() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    daemon.notify("closed", reason="repaired")
    assert isinstance(feed.broken, ConnectionLost)
    daemon.lose()
    (request,) = daemon.connect()
    assert request["params"]["after"] == {"seq": 1, "entry_id": "e1"}
    daemon.answer(1, {"epoch": "B", "seq": 2})
    daemon.event(2, epoch="B")
    closed = Notice("s", "session/closed", {"session_id": "s", "reason": "repaired"})
    assert taken(feed) == [1, closed, 2]
    daemon.notify("closed", reason="deleted")
    daemon.lose()
    daemon.connect()
    daemon.refuse(1, {"code": -32020, "kind": "session_not_found", "retryable": False})
    assert isinstance(feed.take(), Notice)
    with pytest.raises(RpcError, match="session_not_found"):
        feed.take()


def test_a_flush_that_a_closed_session_refuses_is_asked_for_again() -> None:
    """The notice and the refusal may come in one read: the flush was sent before either was read."""
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    feed.flush()
    daemon.notify("closed", reason="deleted")
    daemon.refuse(2, {"code": -32040, "kind": "subscription_not_found", "retryable": False})
    assert isinstance(feed.take(), Notice)
    assert not feed.is_over
    daemon.lose()
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 0})
    daemon.answer(2, {"seq": 0})
    assert taken(feed) == [Flushed("s", 0)]


def test_hints_of_the_catalog_that_may_have_been_missed_are_made_up_for() -> None:
    feed = HintFeed(SETUP, CatalogChanged, {}, deadline=30.0)
    daemon = Daemon(feed)
    (request,) = daemon.connect()
    assert (request["method"], request["params"]) == ("catalog/subscribe", {})
    daemon.answer(1, {"revision": 5})
    assert (feed.is_started, feed.take()) == (True, None)
    params = {"revision": 6, "session_id": "s", "change": "created"}
    daemon.say(method="catalog/changed", params=params)
    assert feed.take() == CatalogChanged(6, "s", "created")
    # Nothing happened while there was no connection, and then something did.
    for revision, hint in [(6, None), (8, CatalogChanged(8, None, "many"))]:
        daemon.lose()
        daemon.connect()
        daemon.answer(1, {"revision": revision})
        assert feed.take() == hint
    assert feed.revision == 8


@pytest.mark.parametrize("params", [{}, {"namespace": "settings"}])
def test_a_hint_of_the_state_store_follows_every_lost_connection(params: dict[str, str]) -> None:
    feed = HintFeed(SETUP, StateChanged, params, deadline=30.0)
    daemon = Daemon(feed)
    (request,) = daemon.connect()
    assert (request["method"], request["params"]) == ("state/subscribe", params)
    daemon.answer(1, {"revision": 5})
    assert (feed.is_started, feed.take()) == (True, None)
    told = {"revision": 7, "namespace": "settings", "key": "theme", "change": "set"}
    daemon.say(method="catalog/changed", params={"revision": 9})
    daemon.say(method="state/changed", params=told)
    assert taken(feed) == [StateChanged(7, "settings", "theme", "set")]
    # A change with a lower revision may have become durable meanwhile, so an equal one shows nothing.
    for revision in (7, 8):
        daemon.lose()
        daemon.connect()
        daemon.answer(1, {"revision": revision})
        assert taken(feed) == [StateChanged(revision, params.get("namespace"), None, "many")]
    assert feed.revision == 8


def test_a_flush_comes_in_line_with_the_events_also_over_a_lost_connection() -> None:
    feed, daemon = feed_with(after=0)
    feed.flush()
    assert len(daemon.connect()) == 1
    daemon.answer(1, {"epoch": "A", "seq": 1})
    (flush,) = daemon.requests()
    assert flush["method"] == "session/flush"
    daemon.lose()
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.event(1)
    (flush,) = daemon.requests()
    daemon.answer(flush["id"], {"seq": 1})
    daemon.event(2)
    assert taken(feed) == [1, Flushed("s", 1), 2]


def test_an_event_that_cannot_be_read_ends_the_connection_not_the_subscription() -> None:
    feed, daemon = feed_with(after=0)
    daemon.connect()
    daemon.answer(1, {"epoch": "A", "seq": 1})
    daemon.notify("event", epoch="A", seq=1, entry={"no": "id"})
    assert isinstance(feed.broken, ProtocolViolation)
    assert not feed.is_over


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 3), st.sampled_from(["event", "lagged"])),
        max_size=12,
    )
)
def test_every_entry_comes_once_and_in_order_whatever_breaks(
    steps: list[tuple[int, int, str]],
) -> None:
    """A daemon with a growing log that dies, lags and overlaps at every occasion."""
    feed, daemon = feed_with(after=0)
    stored = 0
    seen: list[Any] = []
    for grow, deliver, trouble in steps:
        stored += grow
        (request,) = daemon.connect()
        after = request["params"]["after"]["seq"]
        assert after == (seen[-1] if seen else 0)
        daemon.answer(1, {"epoch": "A", "seq": stored})
        for seq in range(max(1, after - 1), min(stored, after + deliver) + 1):
            daemon.event(seq)
        if trouble == "lagged":
            daemon.notify("lagged", seq=after)
            for seq in range(after + 1, stored + 1):
                daemon.event(seq)
        seen += [event for event in taken(feed) if isinstance(event, int)]
        daemon.lose()
    assert seen == list(range(1, len(seen) + 1))


# --- the two surfaces


@pytest.mark.parametrize(
    ("tasks", "threads"),
    [
        (Client, BlockingClient),
        (Subscription, BlockingSubscription),
        (CatalogSubscription, BlockingCatalogSubscription),
        (StateSubscription, BlockingStateSubscription),
        (Offer, BlockingOffer),
    ],
)
def test_both_clients_offer_the_same(tasks: type, threads: type) -> None:
    def surface(kind: type) -> dict[str, str]:
        return {
            name: str(inspect.signature(member)).replace("Blocking", "")
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert surface(tasks) == surface(threads)
