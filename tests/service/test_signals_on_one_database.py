"""Signals between daemons that keep their sessions in one database: in order, once, or counted."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from anyio import create_task_group, fail_after, to_thread

from sessiond.limits import SENDER_KEPT_SECONDS
from sessiond.service.database.company_rows import CompanyRows
from sessiond.service.database.database import Head, SessionDatabase
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create, watch
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually, happened
from tests.kit.sessions import SESSION, entry
from tests.service.one_database.connections import OUT_OF_REACH, Severed, Wrapped
from tests.service.one_database.site import NEVER, Site, clients_of
from tests.service.test_presence_on_one_database import is_stored

pytestmark = [pytest.mark.usefixtures("clock")]


async def signal(wire: Wire, kind: str, **more: Any) -> Any:
    return await wire.call("session/signal", session_id=SESSION, kind=kind, **more)


def short(message: dict[str, Any]) -> Any:
    """Return a notification in short: an entry's id, a signal's kind, a number of dropped signals."""
    params = message["params"]
    match message["method"]:
        case "session/event":
            return params["entry"]["id"]
        case "session/signal":
            return params["kind"]
        case "session/lagged":
            return params["dropped_signals"]
        case method:
            return method


async def told(wire: Wire, count: int) -> list[Any]:
    """Return the next notifications in short."""
    return [short(await wire.next_notification()) for _ in range(count)]


async def told_by_a_look(wire: Wire) -> list[Any]:
    """Return all notifications of a look that a read causes."""
    await call(wire, "session/get")
    found, wire.notifications = [*map(short, wire.notifications)], []
    return found


async def signalled(wire: Wire, *kinds: str, end: str) -> None:
    """Send signals, and an entry behind them: once it is stored, the database has the signals."""
    for kind in kinds:
        await signal(wire, kind)
    with suppress(Refusal):
        await append(wire, end)
        return
    # The database was away, and had not taken the signals: the client tries again.
    await append(wire, end)


class Company:
    """The company of a connection, of which a test changes some methods."""

    def __init__(self, inner: CompanyRows) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Through(Wrapped):
    """A connection with another company."""

    def __init__(self, inner: SessionDatabase, company: type[Company]) -> None:
        super().__init__(inner)
        self.company: Any = company(inner.company)


@asynccontextmanager
async def pair(
    site: Site, first: Any = None, second: Any = None, poll_seconds: float = NEVER
) -> AsyncGenerator[tuple[Wire, Wire]]:
    """Yield a client of a daemon, which has made the session, and a subscriber of another daemon."""
    async with (
        site.daemon("one", first, poll_seconds) as here,
        site.daemon("three", second, poll_seconds) as there,
        here.connect() as one,
        there.connect() as three,
    ):
        with fail_after(PATIENCE_SECONDS):
            await create(one, persist="immediate")
            await watch(three)
            if poll_seconds == NEVER:
                await site.watches(one=one, three=three)
            yield one, three


# -- delivery, and order -----------------------------------------------------------------


@pytest.mark.parametrize("poll_seconds", [0.01, NEVER / 2], ids=["a poll", "a ring"])
async def test_a_signal_reaches_a_subscriber_at_another_daemon(
    site: Site, poll_seconds: float
) -> None:
    async with clients_of(site, "one", "three", poll_seconds=poll_seconds) as (one, three):
        await one.call("initialize", client_id="editor-1")
        await create(one, persist="immediate")
        for wire in (one, three):
            await watch(wire)
        if poll_seconds > 1:
            await site.is_heard_by(2)
        sent = await one.request(
            "session/signal", session_id=SESSION, kind="abort", data={"n": 1.50}
        )
        await one.answer(sent)
        heard = await three.next_notification()
        assert heard["method"] == "session/signal"
        assert heard["params"] == {
            "session_id": SESSION,
            "kind": "abort",
            "data": {"n": 1.50},
            "origin": {"client_id": "editor-1", "request_id": sent},
        }
        assert await told(one, 1) == ["abort"]
        # Each daemon tells its own subscribers once.
        await append(one, "e-1")
        assert await told(one, 1) == ["e-1"]
        assert await told(three, 1) == ["e-1"]


@pytest.mark.parametrize("poll_seconds", [0.01, NEVER / 2], ids=["polls", "rings"])
async def test_signals_and_entries_of_one_connection_keep_their_order_at_another_daemon(
    site: Site, poll_seconds: float
) -> None:
    async with clients_of(site, "one", "three", poll_seconds=poll_seconds) as (one, three):
        await create(one, persist="immediate")
        await watch(three)
        if poll_seconds > 1:
            await site.is_heard_by(2)
        sent = [f"signal-{n}" if n % 3 else f"e-{n}" for n in range(200)]
        for begin in range(0, len(sent), 10):
            await one.send(*map(request, sent[begin : begin + 10]))
        assert await told(three, len(sent)) == sent


def request(name: str) -> dict[str, Any]:
    """Return the body of a request that sends a signal, or appends an entry, of this name."""
    given: dict[str, Any]
    if name.startswith("signal"):
        method, given = "session/signal", {"kind": name}
    else:
        method, given = "append", {"entry": entry(name)}
    return {"id": name, "method": method, "params": {"session_id": SESSION, **given}}


async def test_a_look_that_finds_signals_and_entries_tells_them_in_order(site: Site) -> None:
    async with pair(site) as (one, three):
        sent = ["e-1", "signal-1", "e-2", "e-3", "signal-2", "signal-3", "e-4"]
        for name in sent:
            await (signal(one, name) if name.startswith("signal") else append(one, name))
        assert await told_by_a_look(three) == sent
        assert await told_by_a_look(three) == []


async def test_order_holds_where_several_daemons_append_at_once(site: Site) -> None:
    async with (
        clients_of(site, "one", "three", poll_seconds=0.01) as (one, three),
        site.daemon("five") as fifth,
        fifth.connect() as watcher,
    ):
        await create(one, persist="immediate")
        for wire in (watcher, three):
            await watch(wire)
        names = ("a", "b")
        sent = {
            name: [f"signal-{name}-{n}" if n % 3 else f"e-{name}-{n}" for n in range(90)]
            for name in names
        }
        async with create_task_group() as tasks:
            for name, wire in zip(names, (one, three), strict=True):
                tasks.start_soon(send_all, wire, sent[name])
        heard = [*await told(watcher, 180)]
        for name in names:
            assert [one for one in heard if f"-{name}-" in one] == sent[name]
        assert [one for one in await told(three, 180) if "-a-" in one] == sent["a"]


class Lost(Wrapped):
    """A connection that loses the first row that it holds, as one of a stopped daemon does."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.begins, self.has_lost = threading.Event(), threading.Event()
        self.may_begin, self.may_go = threading.Event(), threading.Event()

    def hold(self, at: Head) -> Any:
        self.begins.set()
        assert self.may_begin.wait(PATIENCE_SECONDS)
        held = self.inner.hold(at)
        if not self.has_lost.is_set():
            assert held is not None
            held.release()
            self.has_lost.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return held


async def test_order_holds_where_the_database_has_ended_a_hold(site: Site) -> None:
    connection = Lost(site.connect())
    async with pair(site, None, connection) as (one, three):
        await append(one, "e-1")
        appended = await three.request("append", session_id=SESSION, entry=entry("e-three"))
        await happened(connection.begins)
        await append(one, "e-2")
        connection.may_begin.set()
        await happened(connection.has_lost)
        await append(one, "e-3")
        await signalled(one, "signal-1", end="e-4")
        connection.may_go.set()
        await three.answer(appended)
        assert await told(three, 6) == ["e-1", "e-2", "e-3", "signal-1", "e-4", "e-three"]


async def send_all(wire: Wire, names: list[str]) -> None:
    """Send signals and entries, a few at a time."""
    for begin in range(0, len(names), 5):
        some = names[begin : begin + 5]
        await wire.send(*map(request, some))
        for name in some:
            await wire.answer(name)  # type: ignore[arg-type]


async def test_signals_reach_the_database_before_the_entry_behind_them(site: Site) -> None:
    class OnlyBeforeLines(Company):
        def change(self, change: Any) -> None:
            if threading.current_thread().name == "courier":
                raise OUT_OF_REACH
            self.inner.change(change)

    connection = Through(site.connect(), OnlyBeforeLines)
    async with pair(site, connection) as (one, three):
        await append(one, "e-1")
        await signalled(one, "signal-1", end="e-2")
        assert await told_by_a_look(three) == ["e-1", "signal-1", "e-2"]


async def test_an_entry_waits_for_a_signal_that_is_on_its_way(site: Site) -> None:
    has_begun, may_go = threading.Event(), threading.Event()

    class Held(Company):
        def change(self, change: Any) -> None:
            has_begun.set()
            assert may_go.wait(PATIENCE_SECONDS)
            self.inner.change(change)

    connection = Through(site.connect(), Held)
    async with pair(site, connection) as (one, three):
        await signal(one, "signal-1")
        await happened(has_begun)
        appended = await one.request("append", session_id=SESSION, entry=entry("e-1"))
        for _ in range(5):
            assert await told_by_a_look(three) == []
        may_go.set()
        await one.answer(appended)
        assert await told_by_a_look(three) == ["signal-1", "e-1"]


async def test_a_full_subscriber_misses_signals_and_no_entry_of_a_look(site: Site) -> None:
    async with pair(site) as (one, three):
        sent = [f"e-{number}" for number in range(15)]
        for name in sent:
            await signal(one, f"signal behind {name}", data="x" * 200_000)
            await append(one, name)
        got, dropped, signals = list[Any](), 0, 0
        await call(three, "session/get")
        while sent != got or len(sent) > dropped + signals:
            (heard,) = await told(three, 1)
            if isinstance(heard, int):
                dropped += heard
            elif str(heard).startswith("e-"):
                got.append(heard)
            signals += str(heard).startswith("signal")
        assert 0 < dropped < len(sent)


async def test_a_queued_prompt_wakes_an_agent_at_another_daemon(site: Site) -> None:
    async with clients_of(site, "one", "three") as (editor, agent):
        await create(editor, persist="immediate")
        await watch(agent)
        queued = await signal(editor, "steer", queue=True, data="Stop.")
        heard = (await agent.next_notification())["params"]
        assert (heard["kind"], heard["queue_id"]) == ("steer", queued["queue_id"])
        waiting = (await call(agent, "session/queue"))["waiting"]
        assert [one["queue_id"] for one in waiting] == [queued["queue_id"]]


async def test_a_queued_prompt_is_told_although_its_sender_closes_the_session(site: Site) -> None:
    async with clients_of(site, "one", "three") as (editor, agent):
        await create(editor, persist="immediate")
        await watch(agent)
        for number in range(5):
            members = {"session_id": SESSION, "kind": "steer", "queue": True}
            queued = await editor.request("session/signal", queue_id=f"p{number}", **members)
            await call(editor, "session/close")
            await editor.answer(queued)
            assert (await agent.next_notification())["params"]["queue_id"] == f"p{number}"


async def test_a_daemon_that_opens_a_session_owes_no_older_signals(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await signalled(one, "old-1", "old-2", end="e-1")
        await watch(three)
        await signalled(one, "new-1", end="e-2")
        assert await told_by_a_look(three) == ["new-1", "e-2"]


async def test_subscribers_without_signals_get_none_and_count_none(site: Site) -> None:
    async with clients_of(site, "one", "three", poll_seconds=NEVER) as (one, three):
        await create(one, persist="immediate")
        await watch(three, signals=False)
        await signalled(one, "s-1", end="e-1")
        site.lose_signals()
        await signalled(one, "s-2", end="e-2")
        assert await told_by_a_look(three) == ["e-1", "e-2"]
        await watch(three)
        await signalled(one, "s-3", end="e-3")
        assert await told_by_a_look(three) == ["s-3", "e-3"]


# -- what is gone is counted -----------------------------------------------------------------


@pytest.mark.parametrize("is_emptied", [True, False], ids=["a crash", "their removal"])
async def test_signals_that_are_gone_are_counted(site: Site, is_emptied: bool) -> None:
    async with pair(site) as (one, three):
        await signalled(one, "s-1", end="e-1")
        assert await told_by_a_look(three) == ["s-1", "e-1"]
        await signalled(one, *(f"s-{number}" for number in range(2, 7)), end="e-2")
        site.empty_company() if is_emptied else site.lose_signals()
        await signalled(one, "s-7", "s-8", end="e-3")
        seen = await told_by_a_look(three)
        assert seen == [5, "session/synced", "e-2", "s-7", "s-8", "e-3"]
        await signalled(one, "s-9", end="e-4")
        assert await told_by_a_look(three) == ["s-9", "e-4"]


async def test_a_crash_is_counted_although_no_more_signals_come(site: Site) -> None:
    connection = Severed(site.connect())
    async with pair(site, None, connection, poll_seconds=0.01) as (one, three):
        await signal(one, "s-0")
        assert await told(three, 1) == ["s-0"]
        connection.is_there = False
        await signalled(one, *(f"s-{number}" for number in range(1, 4)), end="e-1")
        site.empty_company()
        # The daemon of the sender looks now and then whether its row is there.
        await eventually(partial(is_stored, site))
        connection.is_there = True
        assert await told(three, 3) == [3, "session/synced", "e-1"]


async def test_a_session_that_was_closed_is_counted(site: Site) -> None:
    async with pair(site) as (one, three):
        await signalled(one, "s-1", "s-2", end="e-1")
        site.lose_signals()
        await call(one, "session/close")
        await signalled(one, "s-3", end="e-2")
        assert await told_by_a_look(three) == [2, "session/synced", "e-1", "s-3", "e-2"]


async def test_signals_beyond_what_may_wait_are_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SIGNALS_WAITING_MAX=3)
    connection = Severed(site.connect())
    async with pair(site, connection, poll_seconds=0.01) as (one, three):
        await watch(one)
        connection.is_there = False
        for number in range(10):
            await signal(one, f"s-{number}")
        # Subscribers here get them all.
        assert await told(one, 10) == [f"s-{number}" for number in range(10)]
        connection.is_there = True
        assert await told(three, 5) == [7, "session/synced", "s-0", "s-1", "s-2"]


async def test_the_bytes_that_wait_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, ALL_SIGNALS_WAITING_BYTES_MAX=3000)
    connection = Severed(site.connect())
    async with pair(site, connection, poll_seconds=0.01) as (one, three):
        for turn in range(3):
            connection.is_there = False
            for number in range(4):
                await signal(one, f"s-{turn}-{number}", data="x" * 1000)
            connection.is_there = True
            seen = await told(three, 4)
            assert seen == [2, "session/synced", f"s-{turn}-0", f"s-{turn}-1"]


async def test_the_database_keeps_so_many_signals_of_a_sender(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SIGNALS_KEPT_MAX=3)
    async with pair(site) as (one, three):
        for number in range(6):
            await signalled(one, f"s-{number}", end=f"e-{number}")
        seen = await told_by_a_look(three)
        assert seen[:2] == [3, "session/synced"]
        assert [name for name in seen if str(name).startswith("s-")] == ["s-3", "s-4", "s-5"]


async def test_a_look_reads_so_many_bytes_and_counts_the_rest(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, SIGNALS_READ_BYTES_MAX=2500)
    async with pair(site) as (one, three):
        for number in range(4):
            await signal(one, f"s-{number}", data="x" * 1000)
        await append(one, "e-1")
        assert await told_by_a_look(three) == [2, "session/synced", "s-2", "s-3", "e-1"]


async def test_a_daemon_that_was_away_for_long_counts_what_it_cannot_know(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SENDER_KEPT_SECONDS > 1
    async with pair(site) as (_, three):
        set_limits(monkeypatch, SENDER_KEPT_SECONDS=-1.0)
        assert await told_by_a_look(three) == [1, "session/synced"]


# -- once --------------------------------------------------------------------------------------


async def test_a_signal_whose_answer_was_lost_comes_once(site: Site) -> None:
    class Cut(Company):
        is_cut = True

        def change(self, change: Any) -> None:
            self.inner.change(change)
            if self.is_cut and change.signals:
                self.is_cut = False
                raise OUT_OF_REACH

    connection = Through(site.connect(), Cut)
    async with pair(site, connection) as (one, three):
        for number in range(3):
            connection.company.is_cut = True
            await signalled(one, f"s-{number}", end=f"e-{number}")
        assert await told_by_a_look(three) == ["s-0", "e-0", "s-1", "e-1", "s-2", "e-2"]


async def test_a_signal_that_comes_late_to_the_database_comes_in_order_or_not_at_all(
    site: Site,
) -> None:
    class Late(Company):
        held: Any = None

        def change(self, change: Any) -> None:
            if self.held is None and change.signals:
                # The connection ends, and the server carries the change out some time later.
                self.held = change
                raise OUT_OF_REACH
            self.inner.change(change)

    connection = Through(site.connect(), Late)
    async with pair(site, connection) as (one, three):
        await signalled(one, "s-1", end="e-1")
        assert await told_by_a_look(three) == ["s-1", "e-1"]
        await to_thread.run_sync(connection.inner.company.change, connection.company.held)
        await signalled(one, "s-2", end="e-2")
        assert await told_by_a_look(three) == ["s-2", "e-2"]


async def test_a_connection_that_comes_back_gets_each_signal_once(site: Site) -> None:
    connection = Severed(site.connect())
    async with pair(site, connection, poll_seconds=0.01) as (one, three):
        sent = [f"s-{number}" for number in range(60)]
        async with create_task_group() as tasks:

            async def flicker() -> None:
                for number in range(40):
                    connection.is_there = bool(number % 2)
                    await let_pass(0.01)

            tasks.start_soon(flicker)
            for name in sent:
                await signal(one, name)
                await let_pass(0.005)
        assert await told(three, len(sent)) == sent


async def test_signals_go_on_behind_a_session_that_was_brought_back(site: Site) -> None:
    async with pair(site) as (one, three):
        await append(one, "e-1")
        assert await told_by_a_look(three) == ["e-1"]
        site.remember()
        await signalled(one, "s-1", end="e-lost")
        site.bring_back()
        # Both daemons open the session anew, with the subscriber that they had.
        await signalled(one, "s-2", end="e-2")
        await call(three, "session/get")
        seen = await told(three, 4)
        assert seen == ["session/replaced", "e-1", "e-2", "session/synced"]
        await signalled(one, "s-3", end="e-3")
        await call(three, "session/get")
        while seen[-1] != "e-3":
            seen += await told(three, 1)
        signals = [one for one in seen if str(one).startswith("s-")]
        assert len(signals) + sum(one for one in seen if isinstance(one, int)) == 3
        assert seen[-2:] == ["s-3", "e-3"]
