"""Requests of a real daemon to the Python clients: summaries, and hooks before changes."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from sessiond_client import (
    Asked,
    BeforeBranch,
    BeforeCompact,
    BeforeFork,
    BeforeSwitch,
    BlockingClient,
    Client,
    ClientClosed,
    ConnectionLost,
    Offer,
    RpcError,
    Summarize,
    connect,
    connect_blocking,
)
from sessiond_client.options import Hook
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon, running

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.both_loops]

PATIENT: dict[str, Any] = {"timeout": PATIENCE_SECONDS, "connect_timeout": 20.0}
README = Path(__file__).resolve().parents[2] / "clients" / "python" / "README.md"
HOOKS: tuple[Hook, ...] = (
    "before_compact",
    "before_fork",
    "before_branch",
    "before_switch",
)
SAID = "It was fixed. \u2028 é😀"


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Run a daemon for all tests that leave it unchanged."""
    with (
        tempfile.TemporaryDirectory(prefix="sd-") as folder,
        running(Daemon(Path(folder) / "s", tmp_path_factory.mktemp("home") / "data")) as daemon,
    ):
        daemon.connect().close()
        yield daemon


async def grown(client: Client) -> str:
    """Return the id of a session with entries to summarise."""
    settings = {"keep_recent_tokens": 1}
    made = await client.create("/p", persist="immediate", compaction=settings)
    for number in range(3):
        message = {"role": "user", "content": f"message {number}"}
        await client.append(made.session.id, message=message)
    return made.session.id


async def compactions(client: Client, session_id: str) -> int:
    page = await client.entries(session_id, types=["compaction"])
    return len(page.entries)


async def test_two_agents_reach_the_limit_at_once_on_one_head(lasting: Daemon) -> None:
    asked_of: list[str] = []
    results: dict[str, Any] = {}
    first_is_asked, second_has_asked, has_joined = anyio.Event(), anyio.Event(), anyio.Event()

    async def serve(name: str, client: Client) -> None:
        async with client.offer(summarize=True) as offer:
            ready[name].set()
            async for asked in offer:
                assert isinstance(asked.about, Summarize)
                asked_of.append(name)
                first_is_asked.set()
                with anyio.fail_after(PATIENCE_SECONDS):
                    await has_joined.wait()
                asked.answer(SAID)

    async def compact(name: str, client: Client) -> None:
        if name == "two":
            second_has_asked.set()
        results[name] = await client.compact(session_id)

    async with (
        connect(lasting.socket_path, client_id="one", **PATIENT) as one,
        connect(lasting.socket_path, client_id="two", **PATIENT) as two,
        anyio.create_task_group() as tasks,
    ):
        session_id = await grown(one)
        ready = {"one": anyio.Event(), "two": anyio.Event()}
        for name, client in (("two", two), ("one", one)):
            tasks.start_soon(serve, name, client)
            await ready[name].wait()
        async with anyio.create_task_group() as callers:
            callers.start_soon(compact, "one", one)
            await first_is_asked.wait()
            callers.start_soon(compact, "two", two)
            await second_has_asked.wait()
            # Behind it on the same connection: it has joined when this is answered.
            await two.heads(session_id)
            has_joined.set()
        # Whose call it is has the first turn: it is known by its client_id.
        assert asked_of == ["one"]
        assert results["one"] == results["two"]
        assert await compactions(one, session_id) == 1
        for client in (one, two):
            await client.append(session_id, message={"role": "user", "content": "on we go"})
        context = await two.build_context(session_id)
        assert context.messages[0]["summary"] == SAID
        assert [message.get("content") for message in context.messages[-2:]] == ["on we go"] * 2
        tasks.cancel_scope.cancel()


def test_threads_serve_the_same_way(lasting: Daemon) -> None:
    def serve(client: BlockingClient, ready: threading.Event) -> list[object]:
        seen: list[object] = []
        with client.offer(summarize=True, hooks=["before_branch"]) as offer:
            ready.set()
            for asked in offer:
                seen.append(type(asked.about))
                # Answered by whoever has the answer, while this thread waits for the next one.
                threading.Thread(target=answer, args=(asked,)).start()
        return seen

    def answer(asked: Asked) -> None:
        if isinstance(asked.about, Summarize):
            asked.answer(SAID)
        else:
            asked.veto("not from here")

    ready = threading.Event()
    with (
        connect_blocking(lasting.socket_path, client_id="a", **PATIENT) as client,
        connect_blocking(lasting.socket_path, client_id="a", **PATIENT) as helper,
        ThreadPoolExecutor(1) as pool,
    ):
        made = client.create("/p", persist="immediate", compaction={"keep_recent_tokens": 1})
        session_id = made.session.id
        for number in range(2):
            client.append(session_id, message={"role": "user", "content": f"{number}"})
        served = pool.submit(serve, helper, ready)
        assert ready.wait(PATIENCE_SECONDS)
        done = client.compact(session_id)
        with pytest.raises(RpcError, match="vetoed") as refused:
            client.branch(session_id, None)
        assert refused.value.data["reason"] == "not from here"
        assert client.get(session_id).leaf_id == done.leaf_id
        helper.disconnect()
        assert served.result(PATIENCE_SECONDS) == [Summarize, BeforeBranch]


def test_a_long_answer_is_sent_before_the_offer_ends(lasting: Daemon) -> None:
    long = "x" * 1_000_000

    def compact() -> int | None:
        return client.compact(session_id).seq

    with (
        connect_blocking(lasting.socket_path, **PATIENT) as client,
        connect_blocking(lasting.socket_path, **PATIENT) as helper,
        ThreadPoolExecutor(1) as pool,
    ):
        made = client.create("/p", persist="immediate", compaction={"keep_recent_tokens": 1})
        session_id = made.session.id
        for number in range(2):
            client.append(session_id, message={"role": "user", "content": f"{number}"})
        with helper.offer(summarize=True) as offer:
            done = pool.submit(compact)
            next(offer).answer(long)
        assert done.result(PATIENCE_SECONDS) == 3
        assert client.build_context(session_id).messages[0]["summary"] == long


# -- hooks ---------------------------------------------------------------------------


async def change(client: Client, hook: str, session_id: str) -> Any:
    """Make the change before which the hook is asked."""
    if hook == "before_branch":
        return await client.branch(session_id, None)
    if hook == "before_fork":
        return await client.fork(session_id)
    if hook == "before_switch":
        return await client.create("/p", switch_from=session_id)
    return await client.compact(session_id, summary="mine")


Handle = Callable[[Asked], None]


def fails(asked: Asked) -> None:
    with pytest.raises(KeyError), asked:
        raise KeyError


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hook_may_veto_and_who_fails_or_vanishes_has_nothing_against_it(
    lasting: Daemon, hook: Hook
) -> None:
    abouts = {
        "before_branch": BeforeBranch,
        "before_fork": BeforeFork,
        "before_compact": BeforeCompact,
        "before_switch": BeforeSwitch,
    }
    async with connect(lasting.socket_path, **PATIENT) as client:
        session_id = await grown(client)

        async def meanwhile(handle: Handle) -> Any:
            """Make the change while a client handles the hook's request."""
            outcome: list[Any] = []

            async def make_it() -> None:
                try:
                    outcome.append(await change(client, hook, session_id))
                except RpcError as refused:
                    outcome.append(refused)

            async with (
                anyio.create_task_group() as tasks,
                connect(lasting.socket_path, client_id="guard", **PATIENT) as guard,
                guard.offer(hooks=[hook]) as offer,
            ):
                tasks.start_soon(make_it)
                asked = await anext(offer)
                assert isinstance(asked.about, abouts[hook])
                about = asked.about
                is_switch = isinstance(about, BeforeSwitch)
                concerned = about.from_session_ids if is_switch else [about.session_id]
                assert concerned == [session_id]
                handle(asked)
                if handle is vanishes:
                    guard.disconnect()
                    assert asked.is_withdrawn
            return outcome[0]

        def vanishes(_asked: Asked) -> None:
            """End the connection while the request is open."""

        before = (await client.get(session_id)).seq
        refused = await meanwhile(lambda asked: asked.veto("Not now."))
        assert isinstance(refused, RpcError)
        assert (refused.data["by"], refused.data["reason"]) == ("guard", "Not now.")
        assert (await client.get(session_id)).seq == before
        for handle in (fails, vanishes, Asked.pass_on):
            assert not isinstance(await meanwhile(handle), RpcError)
            # Each time there is something new to do it to.
            await client.append(session_id, message={"role": "user", "content": "more"})


def test_who_hangs_holds_nothing_up_for_long_and_is_told(lasting: Daemon) -> None:
    """Each hook takes ten seconds, so all hang at once, and only one backend is tested."""
    anyio.run(_hang_before_each, lasting)


async def _hang_before_each(lasting: Daemon) -> None:
    withdrawn: list[object] = []
    all_told = anyio.Event()

    async def hang(client: Client) -> None:
        async with client.offer(hooks=True) as offer:
            ready.set()
            async for asked in offer:
                asked.on_withdrawn(partial(note, asked))

    def note(asked: Asked) -> None:
        withdrawn.append(type(asked.about))
        if len(withdrawn) == len(HOOKS):
            all_told.set()

    async with (
        connect(lasting.socket_path, **PATIENT) as client,
        connect(lasting.socket_path, **PATIENT) as hanging,
        anyio.create_task_group() as tasks,
    ):
        sessions = [await grown(client) for _ in HOOKS]
        ready = anyio.Event()
        tasks.start_soon(hang, hanging)
        await ready.wait()
        async with anyio.create_task_group() as callers:
            for hook, session_id in zip(HOOKS, sessions, strict=True):
                callers.start_soon(change, client, hook, session_id)
        with anyio.fail_after(PATIENCE_SECONDS):
            await all_told.wait()
        assert set(withdrawn) == {BeforeBranch, BeforeFork, BeforeCompact, BeforeSwitch}
        tasks.cancel_scope.cancel()


async def test_a_hook_supplies_the_summary_of_a_run_and_of_a_branch(lasting: Daemon) -> None:
    async def supply(client: Client) -> None:
        async with client.offer(hooks=["before_compact", "before_branch"]) as offer:
            ready.set()
            async for asked in offer:
                with asked:
                    asked.answer(f"{SAID} {type(asked.about).__name__}")

    async with (
        connect(lasting.socket_path, **PATIENT) as client,
        connect(lasting.socket_path, **PATIENT) as other,
        anyio.create_task_group() as tasks,
    ):
        session_id = await grown(client)
        ready = anyio.Event()
        tasks.start_soon(supply, other)
        await ready.wait()
        # Nobody offered to summarize.
        done = await client.compact(session_id)
        assert done.leaf_id is not None
        stored = await client.entry(session_id, done.leaf_id)
        assert stored.entry["summary"] == f"{SAID} BeforeCompact"
        await client.append(session_id, message={"role": "assistant", "content": "x"})
        moved = await client.branch(session_id, None)
        assert moved.leaf_id is not None
        stored = await client.entry(session_id, moved.leaf_id)
        assert (stored.entry["type"], stored.entry["summary"]) == (
            "branch_summary",
            f"{SAID} BeforeBranch",
        )
        tasks.cancel_scope.cancel()


# -- connections that end -------------------------------------------------------------


async def test_an_offer_outlives_the_daemon_and_what_was_asked_does_not(server: Daemon) -> None:
    lost = anyio.Event()
    answered: list[str] = []

    async def serve(client: Client) -> None:
        async with client.offer(summarize=True) as offer:
            ready.set()
            async for asked in offer:
                if not answered:
                    answered.append("never")
                    asked.on_withdrawn(lost.set)
                    first_is_asked.set()
                else:
                    asked.answer(SAID)

    async with (
        connect(server.socket_path, **PATIENT) as client,
        connect(server.socket_path, **PATIENT) as helper,
        anyio.create_task_group() as tasks,
    ):
        session_id = await grown(client)
        ready, first_is_asked = anyio.Event(), anyio.Event()
        tasks.start_soon(serve, helper)
        await ready.wait()
        async with anyio.create_task_group() as callers:
            callers.start_soon(lose, client, session_id)
            await first_is_asked.wait()
            await to_thread.run_sync(server.end, signal.SIGKILL)
        with anyio.fail_after(PATIENCE_SECONDS):
            await lost.wait()
        server.start()
        with anyio.fail_after(PATIENCE_SECONDS):
            # The offer is there again when the next one is answered.
            while (seq := await compacted(client, session_id)) is None:
                pass
        assert seq == 4
        tasks.cancel_scope.cancel()


async def lose(client: Client, session_id: str) -> None:
    with pytest.raises(ConnectionLost) as lost:
        await client.compact(session_id)
    assert lost.value.outcome_unknown


async def compacted(client: Client, session_id: str) -> int | None:
    try:
        return (await client.compact(session_id)).seq
    except RpcError as refused:
        if refused.kind != "summarizer_unavailable":
            raise
        return None


async def test_what_nobody_waits_for_any_more_is_withdrawn(lasting: Daemon) -> None:
    stopped = anyio.Event()

    async def write(asked: Asked) -> None:
        with asked, anyio.CancelScope() as scope:
            asked.on_withdrawn(scope.cancel)
            calling.cancel()
            await anyio.sleep_forever()
        stopped.set()

    async def serve() -> None:
        async with helper.offer(summarize=True) as offer:
            ready.set()
            async for asked in offer:
                tasks.start_soon(write, asked)

    async with (
        connect(lasting.socket_path, **PATIENT) as client,
        connect(lasting.socket_path, **PATIENT) as helper,
        anyio.create_task_group() as tasks,
    ):
        session_id = await grown(client)
        ready = anyio.Event()
        tasks.start_soon(serve)
        await ready.wait()
        with anyio.CancelScope() as calling:
            await client.compact(session_id)
        with anyio.fail_after(PATIENCE_SECONDS):
            # The cancellation travels with whatever is asked next.
            await client.ping()
            await stopped.wait()
        assert await compactions(client, session_id) == 0
        tasks.cancel_scope.cancel()


async def test_a_merge_a_squash_and_a_left_branch_are_written_by_the_client_that_offered_them(
    lasting: Daemon,
) -> None:
    asked_for: list[str] = []

    async def serve(offer: Offer) -> None:
        async for asked in offer:
            assert isinstance(asked.about, Summarize)
            asked_for.append(asked.about.purpose)
            assert asked.about.plan is None
            asked.answer(f"{SAID} {asked.about.purpose}")

    async with (
        connect(lasting.socket_path, client_id="writer", **PATIENT) as client,
        client.offer(summarize=["merge", "squash", "branch"]) as offer,
        anyio.create_task_group() as tasks,
    ):
        one, other = await grown(client), await grown(client)
        tasks.start_soon(serve, offer)
        merged = await client.merge(one, other)
        assert merged.entry is not None
        context = await client.build_context(one)
        assert context.messages[-1]["content"][0]["text"] == f"{SAID} merge"
        assert context.sources[-1] == merged.entry.id
        made = await client.rebase(one, indices=[1, 0], squash={})
        assert (await client.build_context(made.id)).messages[0]["summary"] == f"{SAID} squash"
        # Nobody offered compactions.
        with pytest.raises(RpcError, match="summarizer_unavailable"):
            await client.compact(one)
        moved = await client.navigate(one, None, summarize=True)
        stored = (await client.entry(one, str(moved.leaf_id))).entry
        assert stored["summary"] == f"{SAID} branch"
        assert asked_for == ["merge", "squash", "branch"]
        tasks.cancel_scope.cancel()


async def test_who_may_not_write_offers_nothing_and_an_offer_of_nothing_is_none(
    lasting: Daemon,
) -> None:
    path = lasting.socket_path
    async with connect(path, access="read", **PATIENT) as client:
        with pytest.raises(RpcError, match="permission_denied"):
            async with client.offer(summarize=True):
                pass
        with pytest.raises(ValueError, match="offer something"):
            client.offer()
    with (
        connect_blocking(path, access="read", **PATIENT) as blocking,
        pytest.raises(RpcError, match="permission_denied"),
        blocking.offer(hooks=True),
    ):
        pass


async def test_an_offer_ends_with_its_client(lasting: Daemon) -> None:
    async with connect(lasting.socket_path, **PATIENT) as client:
        async with client.offer(hooks=True) as offer:
            offer.close()
            assert [asked async for asked in offer] == []
        async with client.offer(hooks=True) as offer:
            client.disconnect()
            assert [asked async for asked in offer] == []
        with pytest.raises(ClientClosed):
            await client.ping()


async def test_the_example_of_the_readme_works(lasting: Daemon) -> None:
    (block,) = (
        block.partition("```")[0]
        for block in README.read_text("utf-8").split("```python\n")
        if "client.offer(" in block.partition("```")[0]
    )
    program, _, _ = block.partition("\nanyio.run(")
    asked: list[str] = []

    async def model(prompt: str) -> str:
        asked.append(prompt)
        return SAID

    names: dict[str, Any] = {"model": model}
    exec(compile(program, str(README), "exec"), names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SESSIOND_SOCKET", str(lasting.socket_path))
        async with connect(**PATIENT) as client:
            session_id = await grown(client)
            await names["main"](session_id)
            context = await client.build_context(session_id)
    assert context.messages[0]["summary"] == SAID
    assert len(asked) == 1
