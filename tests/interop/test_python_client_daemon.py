"""The Python clients against a real daemon, in its own process, also when it is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from anyio import to_thread

from sessiond_client import (
    Client,
    ConnectionLost,
    Cursor,
    EntryEvent,
    Event,
    Flushed,
    RpcError,
    StateChanged,
    Synced,
    connect,
    connect_blocking,
)
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.interop]

ASSISTANT = {"role": "assistant", "content": [{"type": "text", "text": "yes", "n": 1.5}]}
REPOSITORY = Path(__file__).resolve().parents[2]
PATIENT: dict[str, Any] = {"timeout": 60.0, "connect_timeout": 20.0}


class Daemon:
    """`sessiond serve` on one socket and one home; it can be killed and started again."""

    def __init__(self, socket_path: Path, home: Path) -> None:
        program = "from sessiond.cli import main; main()"
        self._command = [sys.executable, "-c", program, "serve", "--socket", str(socket_path)]
        self._command += ["--home", str(home)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def end(self, how: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(PATIENCE_SECONDS)


@pytest.fixture
def daemon(socket_path: Path, home: Path) -> Iterator[Daemon]:
    daemon = Daemon(socket_path, home / "data")
    daemon.start()
    yield daemon
    assert daemon.end(signal.SIGTERM) == 0


async def entries_until(events: Any, is_last: Callable[[EntryEvent], bool]) -> list[EntryEvent]:
    seen: list[EntryEvent] = []
    async for event in events:
        if isinstance(event, EntryEvent):
            seen.append(event)
            if is_last(event):
                break
    return seen


async def read_all(client: Client, session_id: str) -> list[tuple[int, str]]:
    """Every entry of the log, by pages."""
    found: list[tuple[int, str]] = []
    after: int | None = 0
    while after is not None:
        page = await client.entries(session_id, after_seq=after, limit=50)
        found += [(row.seq, row.entry["id"]) for row in page.entries]
        after = page.next_seq
    return found


async def test_every_method_of_the_spine(daemon: Daemon, socket_path: Path) -> None:
    async with connect(socket_path, client_id="test", **PATIENT) as client:
        created = await client.create("/project", title="T", persist="immediate")
        session_id = created.session.id
        assert created.created
        user = await client.append(session_id, message={"role": "user", "content": "hi"})
        pair = await client.append(
            session_id,
            entries=[
                {"type": "message", "message": ASSISTANT},
                {"type": "custom", "custom_type": "x", "data": [1]},
            ],
            expected={"leaf_id": user.leaf_id},
            durability="disk",
        )
        assert [entry.seq for entry in pair.entries] == [2, 3]
        assert (await client.path(session_id)).entries[1].entry["message"] == ASSISTANT
        moved = await client.branch(session_id, user.leaf_id, head="other")
        assert moved.leaf_id == user.leaf_id
        await client.label(session_id, pair.entries[0].id, "here")
        assert (await client.entry(session_id, pair.entries[0].id)).label == "here"
        assert {head.name for head in await client.heads(session_id)} == {"main", "other"}
        nodes = (await client.tree(session_id)).nodes
        assert [node.depth for node in nodes] == [0, 1, 2]
        context = await client.build_context(session_id)
        assert context.messages[1] == ASSISTANT
        same = await client.build_context(session_id, if_none_match=context.etag)
        assert same.not_modified
        compacted = await client.compact(
            session_id, summary="short", first_kept_entry_id=pair.entries[0].id
        )
        assert (await client.get(session_id)).leaf_id == compacted.leaf_id
        exported = await client.export(session_id)
        assert exported.content is not None
        imported = await client.import_(content=exported.content)
        assert imported.session.seq == compacted.seq
        assert {info.id for info in (await client.list()).sessions} == {
            session_id,
            imported.session.id,
        }
        assert (await client.reset(session_id, head="other")).leaf_id is None
        await client.close(session_id)
        assert (await client.open(session_id=session_id)).id == session_id
        for ask in (client.ping, client.info, client.stats):
            assert await ask()
        with pytest.raises(RpcError) as refused:
            await client.append(
                session_id, message={"role": "user"}, expected={"leaf_id": user.leaf_id}
            )
        assert refused.value.kind == "precondition_failed"
        assert refused.value.data["actual"]["leaf_id"] == compacted.leaf_id


async def test_looking_after_sessions(daemon: Daemon, socket_path: Path) -> None:
    async with connect(socket_path, **PATIENT) as client:
        session_id = (await client.create("/project", persist="immediate")).session.id
        first = await client.append(session_id, message={"role": "user", "content": "hi"})
        assert first.leaf_id is not None
        second = await client.append(session_id, message=ASSISTANT)
        changed = await client.update(session_id, title="T", tags=["a"], metadata={"n": [1]})
        assert (changed.title, changed.tags, changed.metadata) == ("T", ["a"], {"n": [1]})
        await client.label(session_id, first.leaf_id, "start")
        labels = (await client.labels(session_id)).labels
        assert [(label.entry_id, label.label) for label in labels] == [(first.leaf_id, "start")]
        rewound = await client.rewind(session_id, first.leaf_id)
        assert (rewound.leaf_id, rewound.rewound) == (first.leaf_id, [second.leaf_id])
        nested = await client.tree(session_id, form="nested")
        assert [node.id for node in nested.roots[0].children] == [second.leaf_id]
        drawn = await client.tree(session_id, form="text")
        assert drawn.text is not None
        assert "user: hi" in drawn.text
        verified = await client.verify(session_id)
        assert (verified.ok, verified.problems) == (True, [])
        repaired = await client.repair(session_id)
        assert (repaired.dry_run, repaired.repaired, repaired.dropped) == (True, False, 0)
        await client.archive(session_id)
        with pytest.raises(RpcError, match="session_archived"):
            await client.append(session_id, message=ASSISTANT)
        assert (await client.get(session_id)).archived
        await client.unarchive(session_id)
        await client.delete(session_id)
        await client.purge(session_id)
        with pytest.raises(RpcError, match="session_not_found"):
            await client.get(session_id)
        assert (await client.discover())["openrpc"]


async def test_finding_sessions_and_being_told_of_them(daemon: Daemon, socket_path: Path) -> None:
    async with connect(socket_path, **PATIENT) as client:
        async with client.subscribe_catalog() as hints:
            assert hints.revision is not None
            made = await client.create("/project", title="Fix the clock", persist="immediate")
            hint = await anext(hints)
            assert (hint.session_id, hint.change) == (made.session.id, "created")
        said = {"role": "assistant", "content": [{"type": "text", "text": "the quixotic cron job"}]}
        stored = await client.append(made.session.id, message=said)
        assert (await client.resolve("fix the")).id == made.session.id
        again = await client.continue_recent(cwd="/project")
        assert (again.created, again.session.id) == (False, made.session.id)
        assert [hit.entry_id for hit in await client.search("quixotic")] == [stored.leaf_id]
        forest = await client.catalog_forest(cwd="/project")
        assert [node.session_id for node in forest.nodes] == [made.session.id]
        assert (await client.catalog_forest(form="text")).text is not None
        assert (await client.retention_run(100_000)).sessions == []
        scoped = await client.scope_resolve("project", project="/usr", agent="coder")
        assert scoped.session.scope is not None
        assert (scoped.created, scoped.session.scope.project) == (True, "/usr")
        switched = await client.scope_switch(scope="global")
        assert switched.released == [scoped.session.id]


def test_the_blocking_client_is_told_of_the_catalog(daemon: Daemon, socket_path: Path) -> None:
    with connect_blocking(socket_path, **PATIENT) as client, client.subscribe_catalog() as hints:
        made = client.create("/project", persist="immediate")
        assert next(hints).session_id == made.session.id


async def test_hints_of_the_state_store_go_on_after_the_daemon_was_killed(
    daemon: Daemon, socket_path: Path
) -> None:
    async with connect(socket_path, **PATIENT) as client, client.subscribe_state("ui") as hints:
        start = hints.revision
        assert start is not None
        await client.state_set("other", "theme", "dark")
        first = await client.state_set("ui", "theme", "dark")
        assert await anext(hints) == StateChanged(first.revision, "ui", "theme", "set")
        assert first.revision > start
        daemon.end(signal.SIGKILL)
        daemon.start()
        second = await client.state_set("ui", "theme", "light", expected_revision=first.revision)
        # The hint of this change was lost with the connection, or comes behind the one of "many".
        many = await anext(hints)
        assert (many.namespace, many.key, many.change) == ("ui", None, "many")
        assert (await client.state_get("ui", "theme")).revision == second.revision
        await client.state_delete("ui", "theme")
        while (hint := await anext(hints)).change != "deleted":
            assert hint == StateChanged(second.revision, "ui", "theme", "set")


def test_the_blocking_client_is_told_of_the_state_store(daemon: Daemon, socket_path: Path) -> None:
    with connect_blocking(socket_path, **PATIENT) as client, client.subscribe_state() as hints:
        stored = client.state_set("ui", "theme", "dark")
        assert next(hints) == StateChanged(stored.revision, "ui", "theme", "set")


def test_every_method_has_a_helper() -> None:
    schema = json.loads((REPOSITORY / "protocol.schema.json").read_bytes())
    # The handshakes, and what a subscription does by itself.
    own = {"initialize", "initialized", "shutdown", "exit", "session/unsubscribe"}
    own |= {"catalog/unsubscribe", "state/unsubscribe"}
    named = {
        "session/import": "import_",
        "retention/run": "retention_run",
        "catalog/subscribe": "subscribe_catalog",
        "catalog/forest": "catalog_forest",
        "catalog/roots": "catalog_roots",
        "scope/resolve": "scope_resolve",
        "scope/switch": "scope_switch",
        "session/stats": "session_stats",
    }
    # Helpers of these areas have the area in their names.
    named |= {
        method: method.replace("/", "_")
        for method in schema["methods"]
        if method.startswith(("state/", "secret/"))
    }
    named["state/subscribe"] = "subscribe_state"
    missing = [
        method
        for method in schema["methods"]
        if method not in own
        and not hasattr(Client, named.get(method, method.replace(".", "/").split("/")[-1]))
    ]
    assert missing == []


def test_the_blocking_client_reads_its_own_writes(daemon: Daemon, socket_path: Path) -> None:
    with connect_blocking(socket_path, **PATIENT) as client:
        session_id = client.create("/project").session.id
        with client.subscribe(session_id) as events:
            stored = client.append(session_id, message=ASSISTANT, idempotency_key="k1")
            again = client.append(session_id, message=ASSISTANT, idempotency_key="k1")
            assert (stored.duplicate, again.duplicate) == (False, True)
            assert stored.entries == again.entries
            events.request_flush()
            first, second = next(events), next(events)
            assert isinstance(first, EntryEvent)
            assert first.name.id == stored.leaf_id
            assert second == Flushed(session_id, 1)
            assert events.position == first.cursor
            saved = client.flush(session_id, durability="disk")
            assert (saved.seq, saved.durability) == (1, "disk")
        replay: list[Event] = []
        # A program keeps either, and gives back what it has kept.
        after: Cursor | int = 0
        with client.subscribe(session_id, after=after) as events:
            replay += [next(events), next(events)]
        assert replay[1] == Synced(session_id, 1)
        after = first.cursor
        with client.subscribe(session_id, after=after) as events:
            assert next(events) == Synced(session_id, 1)
        kept = json.dumps(msgspec.to_builtins(first.cursor))
        with client.subscribe(session_id, after=json.loads(kept)) as events:
            assert next(events) == Synced(session_id, 1)
        with pytest.raises(RpcError, match="session_not_found"), client.subscribe("0" * 8):
            pass


async def test_a_subscriber_that_does_not_read_for_a_while_misses_nothing(
    daemon: Daemon, socket_path: Path
) -> None:
    async with connect(socket_path, **PATIENT) as client:
        session_id = (await client.create("/project")).session.id
        async with client.subscribe(session_id) as events:
            for number in range(40):
                content = f"{number} " + "x" * 200_000
                await client.append(session_id, message={"role": "user", "content": content})
            seen = await entries_until(events, lambda event: event.seq == 40)
    assert [event.seq for event in seen] == list(range(1, 41))
    assert [event.entry["message"]["content"].split()[0] for event in seen] == [
        str(number) for number in range(40)
    ]


Stored = list[tuple[int, str]]


class Tally:
    """The acknowledged entries, and a way to wait for a number of them."""

    def __init__(self) -> None:
        self.stored: Stored = []
        self._awaited: dict[int, anyio.Event] = {}

    def add(self, seq: int, entry_id: str) -> None:
        self.stored.append((seq, entry_id))
        if event := self._awaited.get(len(self.stored)):
            event.set()

    async def reach(self, count: int) -> None:
        if len(self.stored) < count:
            self._awaited[count] = anyio.Event()
            await self._awaited[count].wait()


async def append_many(path: Path, session_id: str, count: int, tally: Tally) -> None:
    async with connect(path, **PATIENT) as client:
        for _ in range(count):
            stored = (await client.append(session_id, message=ASSISTANT)).entries[0]
            tally.add(stored.seq, stored.id)


async def watch(path: Path, session_id: str, last: int, seen: Stored) -> None:
    async with (
        connect(path, **PATIENT) as client,
        client.subscribe(session_id, after=Cursor(0)) as events,
    ):
        for event in await entries_until(events, lambda event: event.seq == last):
            seen.append((event.seq, event.name.id))


def watch_in_thread(path: Path, session_id: str, last: int, seen: Stored) -> None:
    with (
        connect_blocking(path, **PATIENT) as client,
        client.subscribe(session_id, after=0) as events,
    ):
        for event in events:
            if isinstance(event, EntryEvent):
                seen.append((event.seq, event.name.id))
                if event.seq == last:
                    return


async def test_a_killed_daemon_loses_and_doubles_nothing(daemon: Daemon, socket_path: Path) -> None:
    """Four clients append, two watch; meanwhile the daemon is killed, again and again."""
    last = 120
    tally = Tally()
    watched: Stored = []
    watched_in_thread: Stored = []

    async def kill() -> None:
        for count in (last // 5, last // 2, last * 4 // 5):
            await tally.reach(count)
            await to_thread.run_sync(daemon.end, signal.SIGKILL)
            await to_thread.run_sync(daemon.start)

    async with connect(socket_path, **PATIENT) as client:
        session_id = (await client.create("/project", persist="immediate")).session.id
        where = (socket_path, session_id)
        async with anyio.create_task_group() as group:
            group.start_soon(watch, *where, last, watched)
            group.start_soon(to_thread.run_sync, watch_in_thread, *where, last, watched_in_thread)
            group.start_soon(kill)
            for _ in range(4):
                group.start_soon(append_many, *where, last // 4, tally)
        stored = await read_all(client, session_id)
    assert [seq for seq, _ in stored] == list(range(1, last + 1))
    assert sorted(tally.stored) == watched == watched_in_thread == stored


async def test_a_stopped_daemon_is_told_apart_from_a_lost_answer(
    daemon: Daemon, socket_path: Path
) -> None:
    async with connect(socket_path, **PATIENT) as client:
        session_id = (await client.create("/project", persist="immediate")).session.id
        await client.stop()
        assert daemon.end(signal.SIGCONT) == 0
        with pytest.raises(ConnectionLost, match="cannot connect"):
            async with connect(socket_path):
                pass
        daemon.start()
        # The connection was idle when it broke: this one is simply made again.
        assert (await client.branch(session_id, None)).leaf_id is None
