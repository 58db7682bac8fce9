"""Files in the older spellings of piglet and sharur: they are appended to as their programs have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from sessiond.testing.daemon import Refusal
from sessiond.testing.wire import Wire
from tests.kit.calls import call
from tests.kit.house import House, put_sample
from tests.kit.readers.piglet import PigletFile
from tests.kit.readers.sharur import load, load_flat
from tests.kit.roots import SAMPLES, add_root
from tests.service.test_older_versions import ROWS

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

Json = Any
STAMP = "2026-05-01T09:00:00Z"
PIGLET = (SAMPLES / "piglet" / "piglet-legacy.jsonl").read_bytes()
FLAT = (SAMPLES / "sharur" / "sharur-legacy-kind.jsonl").read_bytes()
ONCE = {"idempotency_key": "once"}


def put(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True)
    path = folder / "old.jsonl"
    path.write_bytes(data)
    return path


def user(text: str) -> Json:
    return {"role": "user", "content": text, "timestamp": STAMP}


async def opened(wire: Wire, path: Path) -> str:
    info = await call(wire, "session/open", "session", path=str(path))
    assert (info["read_only"], info["read_only_reason"]) == (False, None)
    return str(info["id"])


async def seen(wire: Wire, session_id: str) -> Json:
    """Return the entries with their seqs, and the context."""
    rows = await call(wire, "session/entries", ROWS, session_id=session_id)
    return rows, await call(wire, "build_context", "messages", session_id=session_id)


async def seen_by(wire: Wire, watcher: Wire, session_id: str) -> Json:
    """Return what a reader sees; events that a watcher is told say the same."""
    rows, said = await seen(wire, session_id)
    await watcher.call("subscribe", session_id=session_id, after={"seq": 0})
    told = [(await watcher.next_notification())["params"] for _ in rows]
    assert [(one["seq"], one["entry"]) for one in told] == rows
    return rows, said


async def test_a_file_of_piglet_without_ids_goes_on_below_the_ids_that_piglet_counts(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path / "piglet", PIGLET)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        first = await seen(wire, own)
        said = {"session_id": own, "message": {"role": "user", "content": "on <here>"}, **ONCE}
        made = await wire.call("session/append", **said)
        assert (await wire.call("session/append", **said))["duplicate"]
        await wire.call("session/branch", session_id=own, entry_id="L1")
        await wire.call("session/label", session_id=own, entry_id="L0", label="first")
        answer = {"role": "assistant", "content": [{"text": "Aside."}]}
        await wire.call("session/append", session_id=own, message=answer)
        await wire.call("session/update", session_id=own, title="Older & wiser")
        data = path.read_bytes()
        assert data.startswith(PIGLET)
        theirs = PigletFile(data)
        assert (theirs.skipped, theirs.title) == (1, "Older & wiser")
        assert theirs.set_labels() == {"L0": "first"}
        assert theirs.items[made["leaf_id"]].parent == "cafe0001"
        rows, context = await seen(wire, own)
        assert rows[: len(first[0])] == first[0]
        assert context == theirs.messages()
        assert [item.id for item in theirs.path()][:2] == ["L0", "L1"]
    # An older piglet goes on without ids: its count goes on, too.
    with path.open("ab") as file:
        file.write(PIGLET.splitlines(keepends=True)[1])
    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        own = await opened(wire, path)
        assert (await wire.call("session/append", **said))["duplicate"]
        await wire.call("session/append", session_id=own, message={"role": "user", "content": "x"})
        again, context = await seen_by(wire, watcher, own)
        assert again[: len(rows)] == rows
        theirs = PigletFile(path.read_bytes())
        assert context == theirs.messages()
        assert theirs.path()[-1].parent == "L3"
        kinds = [entry["id"] for _, entry in again if entry["id"].startswith("L")]
        assert kinds == ["L0", "L1", "L2", "L3"]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await seen(wire, await opened(wire, path)) == (again, context)


@pytest.mark.parametrize("ends", [b"", b"\n"])
async def test_lines_of_another_program_keep_their_places_before_ours(
    real_house: House, tmp_path: Path, ends: bytes
) -> None:
    """The other program writes between our look and our write, also without the newline of its line."""
    path = put(tmp_path / "piglet", PIGLET)
    theirs = PIGLET.splitlines()[1]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        message = {"role": "user", "content": "ours"}
        for _ in range(3):
            with path.open("ab") as file:
                file.write(theirs + b"\n")
            await wire.call("session/append", session_id=own, message=message)
        if not ends:
            with path.open("ab") as file:
                file.write(theirs[:40])
            await wire.call("session/append", session_id=own, message=message)
        rows, context = await seen(wire, own)
        assert context == PigletFile(path.read_bytes()).messages()
        verified = await wire.call("session/verify", session_id=own)
        assert verified["read_only"] is False
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await seen(wire, await opened(wire, path)) == (rows, context)


@pytest.mark.parametrize(("name", "data"), [("piglet", PIGLET), ("sharur", FLAT)])
async def test_what_lands_between_our_look_and_our_write_is_the_same_live_and_reopened(
    house: House, name: str, data: bytes
) -> None:
    path = put_sample(house, {"piglet": "piglet-legacy", "sharur": "sharur-legacy-kind"}[name])
    theirs = data.splitlines(keepends=True)[1]
    async with house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        for _ in range(2):
            house.disk.land(path, theirs)
            await wire.call("session/append", session_id=own, message=user("ours"))
            await wire.call("session/append", session_id=own, message=user("next"))
        live = await seen(wire, own)
        said = house.disk.content(path)
        assert said.count(theirs.strip()) == 3
    async with house.daemon() as daemon, daemon.connect() as wire:
        assert await seen(wire, await opened(wire, path)) == live


async def test_a_file_of_sharur_from_before_the_tree_takes_messages_as_it_has_them(
    real_house: House, tmp_path: Path
) -> None:
    path = put(tmp_path / "sharur", FLAT)
    before = load(FLAT)
    async with real_house.daemon() as daemon, daemon.connect() as wire, daemon.connect() as watcher:
        own = await opened(wire, path)
        first = await seen(wire, own)
        said = {"session_id": own, "message": user("on <here>"), **ONCE}
        made = await wire.call("session/append", **said)
        assert (await wire.call("session/append", **said))["duplicate"]
        read = {"id": "call_9", "name": "read", "args": {"path": "a.go"}}
        answer = {"role": "assistant", "content": "", "thinking": "hm", "toolCalls": [read]}
        result = {"role": "tool", "content": "Error: gone", "toolCallId": "call_9"}
        many = [{"type": "message", "message": one} for one in (answer, result, user("and?"))]
        await wire.call("session/append", session_id=own, entries=many)
        data = path.read_bytes()
        assert data.startswith(FLAT)
        line = json.loads(data.splitlines()[3])
        assert list(line)[:4] == ["kind", "role", "content", "raw"]
        assert (line["kind"], line["raw"]) == ("message", user("on <here>"))
        assert not {"id", "type"} & line.keys()
        # The program of such files reads them all; today's reads of them what it read before.
        header, messages = load_flat(data)
        assert header == load_flat(FLAT)[0]
        assert messages[2:] == [user("on <here>"), answer, result, user("and?")]
        assert (load(data).leaf, load(data).llm) == (before.leaf, before.llm)
        rows, context = await seen_by(wire, watcher, own)
        assert rows[:2] == first[0]
        assert [row["id"] for _, row in rows][2] == made["leaf_id"]
        assert [one["content"] for one in context] == [one["content"] for one in messages]
        parents = [entry["parent_id"] for _, entry in rows]
        assert parents == [None, *(entry["id"] for _, entry in rows[:-1])]
    # The program itself goes on.
    with path.open("ab") as file:
        file.write(FLAT.splitlines(keepends=True)[1])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        assert (await wire.call("session/append", **said))["duplicate"]
        await wire.call("session/append", session_id=own, message=user("last"))
        again = await seen(wire, own)
        assert again[0][: len(rows)] == rows
        assert [one["content"] for one in again[1]][-2:] == ["hello", "last"]
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        assert await seen(wire, await opened(wire, path)) == again


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/branch", {"entry_id": "FIRST"}),
        ("session/reset", {}),
        ("session/rewind", {"to": "FIRST"}),
        ("session/navigate", {"entry_id": "FIRST"}),
        ("session/label", {"entry_id": "FIRST", "label": "x"}),
        ("session/update", {"title": "x"}),
        ("session/append", {"entries": [{"type": "custom", "custom_type": "x"}]}),
        ("session/append", {"message": user("aside"), "parent_id": "FIRST"}),
        ("session/append", {"message": user("first"), "parent_id": None}),
        ("session/compact", {"summary": "s", "first_kept_entry_id": "LAST"}),
        ("session/compact", {}),
    ],
)
async def test_what_a_file_from_before_the_tree_cannot_have_is_refused_and_fork_is_named(
    real_house: House, tmp_path: Path, method: str, params: Json
) -> None:
    path = put(tmp_path / "sharur", FLAT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        (_, first), (_, last) = (await seen(wire, own))[0]
        ids = {"FIRST": first["id"], "LAST": last["id"]}
        asked = {
            name: ids.get(one, one) if isinstance(one, str) else one for name, one in params.items()
        }
        refused = await wire.refusal(method, session_id=own, **asked)
        assert (refused.data["kind"], refused.data["reason"]) == (
            "session_read_only",
            "older_version",
        )
        assert "session/fork" in str(refused)
        assert path.read_bytes() == FLAT
        await wire.call("session/append", session_id=own, message=user("on"))
        made = await call(wire, "session/fork", "session", session_id=own)
        assert load(Path(made["path"]).read_bytes()).llm[-1]["content"] == "on"


async def test_a_message_that_makes_a_line_too_long_for_sharur_is_refused(
    real_house: House, tmp_path: Path
) -> None:
    """A file from before the tree has each content twice."""
    path = put(tmp_path / "sharur", FLAT)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        own = await opened(wire, path)
        with pytest.raises(Refusal, match="64 KiB"):
            await wire.call("session/append", session_id=own, message=user("x" * 40_000))
        await wire.call("session/append", session_id=own, message=user("x" * 30_000))
        assert len(load_flat(path.read_bytes())[1]) == 3


async def test_a_file_in_a_root_is_listed_and_searched_with_what_was_appended(
    real_house: House, tmp_path: Path
) -> None:
    root = (tmp_path / "piglet").resolve()
    path = put(root, PIGLET)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "piglet")
        own = await opened(wire, path)
        message = {"role": "user", "content": "a walrus in the file"}
        await wire.call("session/append", session_id=own, message=message)
        await wire.call("session/close", session_id=own)
        (hit,) = (await wire.call("session/search", query="walrus"))["hits"]
        (row,) = (await wire.call("session/list"))["sessions"]
        assert (hit["session_id"], row["read_only"]) == (own, False)
        assert hit["entry_id"] == row["leaf_id"]
        export = await wire.call("session/export", session_id=own, format="piglet")
        content = export["content"].encode()
        assert PigletFile(content).messages() == PigletFile(path.read_bytes()).messages()
        opened_file = await to_thread.run_sync(path.read_bytes)
        assert opened_file.startswith(PIGLET)
