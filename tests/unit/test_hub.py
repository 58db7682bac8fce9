"""Fan-out by itself: at any timing, every subscriber gets every event once and in order."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from sessiond.dialects.native.dialect import NATIVE
from sessiond.model.row import Kind, LeafEffect, Row
from sessiond.rpc.framing import frame_ndjson
from sessiond.service.log.events import Event
from sessiond.service.pubsub.hub import Hub
from sessiond.service.pubsub.subscription import Subscription, Variant

pytestmark = pytest.mark.both_loops

BACKENDS = ["asyncio", "trio"]


def entry(seq: int) -> Event:
    wire = b'{"type":"message","id":"n%d"}' % seq
    return Event(seq, Row(Kind.USER, f"n{seq}", None), wire)


async def all_blocked() -> None:
    """Wait until all tasks are blocked.

    anyio checks for that only ten times a second, so the tasks get some turns first.
    """
    for _ in range(50):
        await checkpoint()
    await anyio.wait_all_tasks_blocked()


class FakeLog:
    """Entries in a list; a read takes a turn of the loop."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.chunk = 3
        self.reads = 0

    @property
    def seq(self) -> int:
        return len(self.events)

    def span(self, after: int, upto: int, bytes_max: int) -> int:
        return min(after + self.chunk, upto)

    async def read_events(self, first: int, last: int) -> list[Event]:
        self.reads += 1
        await checkpoint()
        return self.events[first - 1 : last]


class FakeListener:
    """A connection with room for so many frames, emptied by hand."""

    def __init__(self, tasks: anyio.abc.TaskGroup, room: int) -> None:
        self.tasks = tasks
        self.eviction = room
        self.queued: list[bytes] = []
        self.read: list[bytes] = []
        self.flushes = 0
        self.running = 0
        self._emptied = anyio.Event()
        self.replay_turn = anyio.Lock()

    @property
    def encode(self) -> Callable[[bytes], bytes]:
        return frame_ndjson

    def offer(self, frames: bytes) -> bool:
        if self.queued and len(self.queued) >= self.eviction:
            return False
        self.queued.append(frames)
        return True

    def put(self, frame: bytes) -> None:
        self.queued.append(frame)

    def deliver(self, frames: bytes) -> bool:
        if not self.offer(frames):
            return False
        self.flush()
        return True

    def flush(self) -> None:
        self.flushes += 1

    async def wait_room(self) -> None:
        while self.queued and len(self.queued) >= self.eviction:
            if self._emptied.is_set():
                self._emptied = anyio.Event()
            await self._emptied.wait()

    def close(self) -> None:
        """Do nothing: this connection has no reader."""

    def start(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        async def run() -> None:
            self.running += 1
            try:
                await function(*args)
            finally:
                self.running -= 1

        self.tasks.start_soon(run)

    def empty(self) -> None:
        self.read += self.queued
        self.queued.clear()
        self._emptied.set()

    def told(self) -> list[tuple[str, int]]:
        """Return method and seq of every message that was read."""
        lines = b"".join(self.read).split(b"\n")[:-1]
        messages = [json.loads(line) for line in lines]
        return [
            (message["method"].removeprefix("session/"), message["params"].get("seq", 0))
            for message in messages
        ]

    def require_signals(self, first: int, of: int) -> None:
        """Each signal came once, in order and between its events, or is counted as dropped."""
        at, numbers, dropped = first, [], 0
        for line in b"".join(self.read).split(b"\n")[:-1]:
            message = json.loads(line)
            match message["method"]:
                case "session/event":
                    at = message["params"]["seq"]
                case "session/signal":
                    numbers.append(message["number"])
                    assert message["params"]["seq"] == at
                case "session/lagged":
                    dropped += message["params"]["dropped_signals"]
                case _:
                    """Says nothing of signals."""
        assert numbers == sorted(set(numbers))
        assert len(numbers) + dropped == of

    def seqs(self) -> list[int]:
        return [seq for word, seq in self.told() if word == "event"]


class Bench:
    """A hub on a log in memory."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.tasks = tasks
        self.log = FakeLog()
        self.signals = 0
        self.hub = Hub(self.log, "session-a", "epoch-1", NATIVE.rules)

    def publish(self, count: int = 1) -> None:
        events = [entry(self.log.seq + n + 1) for n in range(count)]
        self.log.events += events
        self.hub.publish(events, ())

    def signal(self, count: int = 1) -> None:
        for _ in range(count):
            self.signals += 1
            told = {"method": "session/signal", "params": {"seq": self.log.seq}}
            self.hub.signals.signal(json.dumps({**told, "number": self.signals}).encode(), None)

    def look(self, count: int) -> None:
        """Take in what another daemon has stored: a gap among its signals, then entries and signals."""
        before = self.log.seq
        events = [entry(before + n + 1) for n in range(count)]
        self.log.events += events
        self.signals += count
        self.hub.signals.miss(count, before)
        for event in events:
            self.hub.publish([event], ())
            self.signals += 1
            told = {"method": "session/signal", "params": {"seq": event.seq}}
            body = json.dumps({**told, "number": self.signals}).encode()
            self.hub.signals.signal(body, None, event.seq)

    def watch(self, room: int = 2, after: int | None = None, **want: Any) -> FakeListener:
        listener = FakeListener(self.tasks, room)
        position = self.log.seq if after is None else after
        subscription = Subscription(listener, Variant(frame_ndjson, **want), position)
        self.hub.add(subscription, replay=after is not None)
        return listener


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 5)),
        st.tuples(st.just("signal"), st.integers(1, 5)),
        st.tuples(st.just("look"), st.integers(1, 3)),
        st.tuples(st.just("turn"), st.integers(1, 4)),
        st.tuples(st.just("read"), st.integers(0, 2)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("backend", BACKENDS)
@given(before=st.integers(0, 10), afters=st.lists(st.integers(0, 10), max_size=3), steps=STEPS)
def test_everyone_gets_everything_once_and_in_order_whatever_the_timing(
    backend: str, before: int, afters: list[int], steps: list[tuple[str, int]]
) -> None:
    async def run() -> None:
        async with anyio.create_task_group() as tasks:
            bench = Bench(tasks)
            bench.publish(before)
            watched = [(bench.watch(), before)]
            watched += [(bench.watch(after=min(a, before)), min(a, before)) for a in afters]
            for what, number in steps:
                match what:
                    case "publish" | "signal" | "look":
                        getattr(bench, what)(number)
                    case "turn":
                        for _ in range(number):
                            await checkpoint()
                    case _:
                        watched[number % len(watched)][0].empty()
            for _ in range(4 * bench.log.seq + 20):
                for listener, _after in watched:
                    listener.empty()
                await checkpoint()
            for listener, after in watched:
                listener.empty()
                assert listener.seqs() == list(range(after + 1, bench.log.seq + 1))
                words = [word for word, _ in listener.told()]
                replays = words.count("lagged") + (listener is not watched[0][0])
                assert words.count("synced") == replays
                listener.require_signals(first=after, of=bench.signals)
            assert bench.hub.statistics().replaying == 0

    anyio.run(run, backend=backend)


async def test_publishing_does_not_wait_for_a_connection_without_room() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        listener = bench.watch(room=1)
        bench.publish()
        bench.publish()
        assert listener.flushes == 1
        assert bench.hub.statistics().demotions == 1
        tasks.cancel_scope.cancel()


async def test_events_are_sent_at_once_but_for_connections_that_wait_for_an_answer() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        watches, asks = bench.watch(), bench.watch()
        other = bench.watch(types=frozenset({"label"}))
        bench.log.events.append(entry(1))
        bench.hub.publish([entry(1)], {asks})
        assert (len(watches.queued), watches.flushes) == (1, 1)
        assert (len(asks.queued), asks.flushes) == (1, 0)
        assert (len(other.queued), other.flushes) == (0, 0)


async def test_a_batch_is_offered_as_one_piece_and_counted_by_frame() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        listeners = [bench.watch(), bench.watch(types=frozenset({"message"})), bench.watch()]
        bench.publish(4)
        assert [len(listener.queued) for listener in listeners] == [1, 1, 1]
        assert bench.hub.statistics().frames_encoded == 4


async def test_a_signal_is_encoded_once_for_all_who_read_one_framing() -> None:
    bodies: list[bytes] = []

    def counted(body: bytes) -> bytes:
        bodies.append(body)
        return b"length" + body

    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        others = bench.watch()
        listeners: list[FakeListener] = []
        wants: list[dict[str, Any]] = [{}, {}, {"types": frozenset({"x"})}, {"bodies": False}]
        for want in wants:
            listeners.append(FakeListener(tasks, 2))
            bench.hub.add(Subscription(listeners[-1], Variant(counted, **want), 0), replay=False)
        deaf = bench.watch(signals=False)
        bench.signal()
        (body,) = bodies
        # All listeners share one frame, not a copy each.
        assert len({id(frame) for listener in listeners for frame in listener.queued}) == 1
        assert [listener.queued for listener in listeners] == [[b"length" + body]] * len(wants)
        assert (others.queued, deaf.queued) == ([frame_ndjson(body)], [])


async def test_a_subscription_that_was_removed_hears_nothing_more() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        bench.publish(20)
        listener = FakeListener(tasks, 100)
        subscription = Subscription(listener, Variant(frame_ndjson), 0)
        bench.hub.add(subscription, replay=True)
        await checkpoint()
        bench.hub.remove(subscription)
        heard = len(listener.queued)
        await all_blocked()
        bench.publish()
        assert len(listener.queued) == heard
        assert not bench.hub


async def test_nothing_is_read_for_a_connection_without_room_however_much_it_watches() -> None:
    async with anyio.create_task_group() as tasks:
        benches = [Bench(tasks) for _ in range(20)]
        stuck = FakeListener(tasks, 1)
        stuck.queued.append(b"")
        for bench in benches:
            bench.publish(9)
            bench.hub.add(Subscription(stuck, Variant(frame_ndjson), 0), replay=True)
        await all_blocked()
        assert [bench.log.reads for bench in benches] == [0] * 20
        # Room for one replay at a time: the other replays have read no lines that must wait.
        for number in range(1, 21):
            stuck.empty()
            await all_blocked()
            assert sum(bench.log.reads for bench in benches) <= number + 1
        while any(bench.hub.statistics().replaying for bench in benches):
            stuck.empty()
            await all_blocked()
        stuck.empty()
        assert sorted(stuck.seqs()) == sorted(20 * list(range(1, 10)))


async def test_a_replay_ends_with_its_subscription_wherever_it_waits() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        bench.publish(9)
        stuck = FakeListener(tasks, 1)
        for _ in range(50):
            subscription = Subscription(stuck, Variant(frame_ndjson), 0)
            bench.hub.add(subscription, replay=True)
            await all_blocked()
            assert stuck.running == 1
            bench.hub.remove(subscription)
        await all_blocked()
        assert stuck.running == 0


async def test_closing_tells_everyone_who_watches_and_ends_all_waits() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        bench.publish(2)
        live = bench.watch()
        behind = FakeListener(tasks, 1)
        behind.queued.append(b"")
        subscription = Subscription(behind, Variant(frame_ndjson), 0)
        bench.hub.add(subscription, replay=True)
        tasks.start_soon(subscription.reached, 2)
        await all_blocked()
        for watcher in bench.hub.close():
            bench.hub.tell_closed(watcher, "internal")
        assert not bench.hub
        for listener in (live, behind):
            listener.empty()
            assert listener.told() == [("closed", 0)]
        behind.empty()


async def test_reached_waits_for_the_replay_to_come_so_far() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        bench.publish(9)
        listener = FakeListener(tasks, 1)
        subscription = Subscription(listener, Variant(frame_ndjson), 0)
        bench.hub.add(subscription, replay=True)
        done: list[int] = []

        async def wait(seq: int) -> None:
            await subscription.reached(seq)
            done.append(seq)

        for seq in (9, 3):
            tasks.start_soon(wait, seq)
        await all_blocked()
        assert done == [3]
        listener.empty()
        await all_blocked()
        assert done == [3]
        while 9 not in done:
            listener.empty()
            await all_blocked()
        listener.empty()
        assert listener.seqs() == list(range(1, 10))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row(Kind.USER, "x", None), {"head": "main", "leaf_id": "x"}),
        (Row(Kind.USER, "x", None, head="side"), {"head": "side", "leaf_id": "x"}),
        (Row(Kind.LABEL, "x", None), {}),
        (Row(Kind.LEAF, "x", None, effect=LeafEffect("t")), {"head": "main", "leaf_id": "t"}),
        (Row(Kind.LEAF, "x", None, effect=LeafEffect(None)), {"head": "main", "leaf_id": None}),
        (
            Row(Kind.LEAF, "x", None, head="side", effect=LeafEffect("t", drop=True)),
            {"head": "side", "leaf_id": None, "dropped": True},
        ),
        (Row(Kind.LEAF, "x", None), {}),
    ],
)
async def test_an_event_says_where_its_head_stands_if_it_moved_one(
    row: Row, said: dict[str, Any]
) -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        listener = bench.watch()
        bench.hub.publish([Event(1, row, b'{"id":"x"}')], ())
        listener.empty()
        params = json.loads(listener.read[0])["params"]
        del params["session_id"], params["epoch"], params["seq"], params["entry"]
        assert params == said


# -- what is stored nowhere ----------------------------------------------------------------


async def test_a_signal_is_framed_once_and_goes_to_those_who_want_it() -> None:
    framed: list[bytes] = []

    def counted(body: bytes) -> bytes:
        framed.append(body)
        return frame_ndjson(body)

    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        wants = [FakeListener(tasks, 2) for _ in range(3)]
        other = FakeListener(tasks, 2)
        for listener in wants:
            # The filter of entry types makes no difference.
            types = frozenset({"label"}) if listener is wants[0] else None
            subscription = Subscription(listener, Variant(counted, types=types), 0)
            bench.hub.add(subscription, replay=False)
        bench.hub.add(Subscription(other, Variant(counted, signals=False), 0), replay=False)
        bench.hub.signals.signal(b"{}", wants[1])
        assert framed == [b"{}"]
        assert [listener.queued for listener in wants] == [[b"{}\n"]] * 3
        assert other.queued == []
        # The asker's goes with its answer.
        assert [listener.flushes for listener in wants] == [1, 0, 1]


async def test_a_signal_that_finds_no_room_costs_nobody_else_anything() -> None:
    async with anyio.create_task_group() as tasks:
        bench = Bench(tasks)
        stuck, reads = bench.watch(room=1), bench.watch(room=9)
        bench.signal(3)
        statistics = bench.hub.statistics()
        assert (statistics.signals, statistics.signals_dropped) == (3, 2)
        assert (len(stuck.queued), len(reads.queued)) == (1, 3)
        tasks.cancel_scope.cancel()
