"""The drawn tree is that of session/tree: of every sample, and of a session of random shape."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from sessiond.browse.following import Follower
from sessiond.browse.window import Window
from sessiond_client import Client, RpcError
from sessiond_client.generated.results import SessionInfo
from tests.interop.browse.application import SESSION, conversation
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TESTS: Final = Path(__file__).resolve().parents[2]
FILES: Final = [
    file
    for folder in ("samples", "other_agents")
    for file in sorted((TESTS / folder).rglob("*.jsonl"))
]
# Some formats have these in their tree; the application draws them nowhere.
RECORDS: Final = {"label", "session_info", "leaf"}


class Screen:
    """A view that only notes that something is to be drawn."""

    def __init__(self) -> None:
        self.is_open = anyio.Event()
        self.news = anyio.Event()

    def reloaded(self, window: Window, info: SessionInfo) -> None:
        self.is_open.set()

    def changed(self, window: Window) -> None:
        self.news.set()

    def gone(self, state: str, text: str) -> None:
        raise AssertionError(f"{state}: {text}")


@asynccontextmanager
async def followed(
    client: Client, session_id: str
) -> AsyncGenerator[tuple[Follower, Window, Screen]]:
    screen = Screen()
    follower = Follower(session_id, screen)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follower.run, client)
        await screen.is_open.wait()
        assert follower.window is not None
        yield follower, follower.window, screen
        tasks.cancel_scope.cancel()


async def drawn_by_the_daemon(client: Client, session_id: str) -> list[tuple[Any, ...]]:
    """Return id, row above in the tree, and whether on main's path, for each row but records."""
    page = await client.tree(session_id, limit=5_000)
    assert page.next_cursor is None
    nodes = {node.id: node for node in page.nodes}

    def above(entry_id: str | None) -> str | None:
        while entry_id is not None and nodes[entry_id].type in RECORDS:
            entry_id = nodes[entry_id].below_id
        return entry_id

    return [
        (node.id, above(node.below_id), node.on_active_path)
        for node in page.nodes
        if node.type not in RECORDS
    ]


def drawn(window: Window) -> list[tuple[Any, ...]]:
    window.lay_out()
    return [
        (row.node.id, window._row_of(row.node.parent_id), row.node.id in window.path)
        for row in window.rows
    ]


async def test_a_sample_of_any_format_has_the_tree_of_the_daemon(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    different, seen = [], set()
    for at, file in enumerate(FILES):
        copy = tmp_path / str(at) / file.name
        copy.parent.mkdir()
        shutil.copy(file, copy)
        try:
            info = await client.open(path=str(copy))
        except RpcError:
            continue  # damage on purpose, and indexes of other programs
        seen.add(info.dialect)
        async with followed(client, info.id) as (follower, window, _):
            while window.low > 1:
                await follower.load_earlier(client)
            ours, theirs = drawn(window), await drawn_by_the_daemon(client, info.id)
        if ours != theirs:
            different.append((file.name, ours, theirs))
    assert different == []
    assert seen >= {"native", "pi", "operator", "piglet", "sharur", "claude-code", "codex"}


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.conformance), 1])
async def test_pages_and_events_give_the_tree_of_the_daemon(
    server: Daemon, client: Client, seed: int
) -> None:
    dice = random.Random(seed)
    ids = await conversation(client, [f"number {at}" for at in range(3)])

    async def grow(count: int) -> None:
        for at in range(count):
            match dice.randrange(6):
                case 0:
                    await client.branch(SESSION, dice.choice(ids), head=dice.choice(["main", "b"]))
                case 1:
                    await client.label(SESSION, dice.choice(ids), f"label {at}")
                case _:
                    message = {"role": "user", "content": f"more {at}"}
                    heads = [head.name for head in await client.heads(SESSION)]
                    done = await client.append(SESSION, message=message, head=dice.choice(heads))
                    ids.append(done.entries[0].id)

    await grow(250)
    async with followed(client, SESSION) as (follower, window, screen):
        was_whole = window.low == 1
        drawn(window)
        await grow(60)
        seq = (await client.get(SESSION)).seq
        while follower.seq != seq:
            screen.news = anyio.Event()
            if follower.seq != seq:
                await screen.news.wait()
        # What grows at the end is drawn without the rest: the outcome is that of drawing all.
        step_by_step = drawn(window)
        window._is_stale = True
        at_once = drawn(window)
        while window.low > 1:
            await follower.load_earlier(client)
        ours, theirs = drawn(window), await drawn_by_the_daemon(client, SESSION)
    assert not was_whole
    assert step_by_step == at_once
    assert ours == theirs
