"""piglet's files, opened where they are: the daemon writes what piglet reads."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sessiond.journal.disk import sidecar
from sessiond.system import SYSTEM
from sessiond.system.linux import LINUX
from sessiond.testing.daemon import Daemon, running_daemon, standing_environment
from sessiond.testing.wire import Wire
from tests.kit.readers.piglet import PigletFile
from tests.service.compacting import Command

Json = Any
SAMPLES = Path(__file__).resolve().parents[1] / "samples" / "piglet"
ID = "7c2f1a90-3b5e-4f0d-9a41-5be0c6d2e811"
MODEL = "claude-opus-4-6"
CALL = {"id": "c", "name": "read", "arguments": {"path": "src/a.py"}}

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session"),
]


class Piglets:
    """A session of piglet's in a folder of piglet's, and a client that has it open."""

    def __init__(self, daemon: Daemon, wire: Wire, path: Path) -> None:
        self.daemon = daemon
        self.wire = wire
        self.path = path

    async def call(self, method: str, **params: Json) -> Json:
        return await self.wire.call(method, session_id=ID, **params)

    async def refused(self, method: str, **params: Json) -> Json:
        return (await self.wire.refusal(method, session_id=ID, **params)).data

    async def say(self, content: str, **more: Json) -> Json:
        return await self.call("append", message={"role": "user", "content": content}, **more)

    def read(self) -> PigletFile:
        return PigletFile(self.path.read_bytes())

    def last(self) -> Json:
        return json.loads(self.path.read_bytes().splitlines()[-1])

    async def agrees(self) -> PigletFile:
        """Check that piglet finds the leaf, the context, the labels and the title of the daemon."""
        told = self.read()
        assert told.skipped == 0
        info = (await self.call("session/get"))["session"]
        assert info["leaf_id"] == (told.leaf or None)
        assert (info["title"] or "") == told.title
        assert (await self.call("build_context"))["messages"] == told.messages()
        labels = (await self.call("session/labels"))["labels"]
        assert {one["entry_id"]: one["label"] for one in labels} == told.set_labels()
        again = PigletFile(self.path.read_bytes())
        assert again.meta["id"] == ID
        return told


@pytest.fixture
async def piglets(tmp_path: Path) -> AsyncIterator[Piglets]:
    folder = tmp_path / "piglet"
    folder.mkdir()
    path = folder / f"{ID}.jsonl"
    path.write_bytes((SAMPLES / "piglet.jsonl").read_bytes())
    seconds = count()
    environment = msgspec.structs.replace(
        standing_environment([]), now=lambda: f"2026-11-22T10:00:{next(seconds) % 60:02d}.000Z"
    )
    home = tmp_path / "home"
    async with running_daemon(home, environment=environment) as daemon, daemon.connect() as wire:
        found = await wire.call("session/open", path=str(path))
        assert found["session"]["id"] == ID
        yield Piglets(daemon, wire, path)


async def test_it_is_read_as_it_is(piglets: Piglets) -> None:
    before = piglets.path.read_bytes()
    told = await piglets.agrees()
    info = (await piglets.call("session/get"))["session"]
    assert info["dialect"] == "piglet"
    assert (info["model"], info["title"]) == (MODEL, "Auth refactor")
    tree = (await piglets.call("session/tree"))["nodes"]
    assert [node["id"] for node in tree] == [one for one, _ in told.tree()]
    assert [node["depth"] for node in tree] == [depth for _, depth in told.tree()]
    page = await piglets.call("session/path")
    assert [row["entry"]["id"] for row in page["entries"]] == [item.id for item in told.path()]
    assert piglets.path.read_bytes() == before
    assert not piglets.path.with_name(f"{piglets.path.name}.lock").exists()


async def test_an_append_is_a_line_of_piglets(piglets: Piglets) -> None:
    before = piglets.path.read_bytes()
    await piglets.say("a < b")
    assert piglets.path.read_bytes().startswith(before)
    line = piglets.path.read_bytes().splitlines()[-1]
    assert list(json.loads(line)) == ["type", "id", "parentId", "ts", "data"]
    assert b'"data":{"content":"a \\u003c b"}' in line
    assert (await piglets.agrees()).messages()[-1]["content"] == "a < b"
    answer = {"role": "assistant", "content": [{"text": "ok"}], "model": "other", "provider": "p"}
    await piglets.call("append", message=answer)
    assert (await piglets.call("session/get"))["session"]["model"] == "other"
    await piglets.agrees()


async def test_moves_are_branch_summaries(piglets: Piglets) -> None:
    left = piglets.read().leaf
    moved = await piglets.call("session/branch", entry_id="4a5b6c7d", head="main")
    last = piglets.last()
    assert (last["type"], last["parentId"]) == ("branch_summary", "4a5b6c7d")
    assert last["data"] == {"summary": "", "fromId": left}
    assert moved["leaf_id"] == last["id"]
    await piglets.agrees()
    await piglets.say("another way")
    await piglets.agrees()
    rewound = await piglets.call("session/rewind", to="4a5b6c7d")
    assert rewound["rewound_count"] == 2
    await piglets.agrees()
    await piglets.call("session/reset")
    assert "parentId" not in piglets.last()
    assert (await piglets.agrees()).messages() == []
    await piglets.call("session/branch", entry_id="1a1b1c1d", head="main", summary="why & how")
    assert piglets.last()["data"]["summary"] == "why & how"
    told = await piglets.agrees()
    assert all("why" not in json.dumps(message) for message in told.messages())


async def test_a_rewind_and_a_reset_hold_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes((SAMPLES / "piglet.jsonl").read_bytes())
    for method, params in (("session/rewind", {"to": "1a1b1c1d"}), ("session/reset", {})):
        async with running_daemon(tmp_path / "home") as daemon, daemon.connect() as wire:
            await wire.call("session/open", path=str(path))
            await wire.call(method, session_id=ID, **params)
        async with running_daemon(tmp_path / "home") as daemon, daemon.connect() as wire:
            info = (await wire.call("session/open", path=str(path)))["session"]
            told = PigletFile(path.read_bytes())
            assert info["leaf_id"] == told.leaf
            built = await wire.call("build_context", session_id=ID)
            assert built["messages"] == told.messages()
            assert bool(built["messages"]) is (method == "session/rewind")


async def test_navigation_to_where_a_move_led_writes_nothing(piglets: Piglets) -> None:
    await piglets.call("session/branch", entry_id="4a5b6c7d", head="main")
    before = piglets.path.read_bytes()
    found = await piglets.call("session/navigate", entry_id="4a5b6c7d")
    assert found["moved"] is False
    assert piglets.path.read_bytes() == before
    asked = await piglets.call("session/navigate", entry_id="a1b2c3d4")
    assert asked["editor_text"] == "explain the auth flow & cookies"
    assert (await piglets.agrees()).messages() == []


async def test_a_label_moves_the_leaf_and_is_a_parent(piglets: Piglets) -> None:
    await piglets.call("session/label", entry_id="1a1b1c1d", label="oauth")
    label = piglets.last()
    await piglets.agrees()
    await piglets.say("below a label")
    assert piglets.last()["parentId"] == label["id"]
    await piglets.call("session/label", entry_id="1a1b1c1d", label=None)
    assert piglets.last()["data"]["label"] == ""
    await piglets.agrees()


async def test_a_title_is_a_whole_meta_line_and_moves_nothing(piglets: Piglets) -> None:
    leaf = piglets.read().leaf
    await piglets.call("session/update", title="New & old")
    line = piglets.last()
    assert line["data"] == {
        "id": ID,
        "cwd": "/home/ana/shop",
        "model": MODEL,
        "createdAt": "2026-04-24T10:00:00.104233817-04:00",
        "title": "New & old",
    }
    assert "id" not in line
    assert (await piglets.agrees()).leaf == leaf
    await piglets.call("session/update", model="m2")
    assert (piglets.last()["data"]["title"], piglets.last()["data"]["model"]) == ("New & old", "m2")
    await piglets.call("session/update", title=None)
    assert "title" not in piglets.last()["data"]
    assert piglets.last()["data"]["model"] == "m2"
    await piglets.agrees()
    refused = await piglets.refused("session/update", tags=["a"])
    assert (refused["kind"], refused["path"]) == ("entry_invalid", "tags")


async def test_facts_of_one_call_are_exactly_once_and_no_parent(piglets: Piglets) -> None:
    entry = {"type": "session_info", "name": "Once"}
    first = await piglets.call("session/append", entries=[entry], idempotency_key="k")
    size = len(piglets.path.read_bytes())
    again = await piglets.call("session/append", entries=[entry], idempotency_key="k")
    assert again["duplicate"] is True
    assert again["entries"] == first["entries"]
    assert len(piglets.path.read_bytes()) == size
    named = first["entries"][0]["id"]
    refused = await piglets.refused(
        "append", message={"role": "user", "content": "x"}, parent_id=named
    )
    assert refused["kind"] == "entry_not_found"
    await piglets.agrees()


async def test_a_compaction_stores_the_messages_that_it_makes(piglets: Piglets) -> None:
    await piglets.say("one more")
    kept = await piglets.say("kept")
    kept_id = kept["entries"][0]["id"]
    call = {"summary": "All < that", "first_kept_entry_id": kept_id, "idempotency_key": "k"}
    made = await piglets.call("session/compact", **call)
    line = piglets.last()
    assert line["type"] == "compact"
    assert [(one["type"], one["ts"]) for one in line["data"]] == [
        ("user", "0001-01-01T00:00:00Z")
    ] * 2
    told = await piglets.agrees()
    assert [message["content"] for message in told.messages()] == ["All < that", "kept"]
    size = len(piglets.path.read_bytes())
    await piglets.say("later")
    again = await piglets.call("session/compact", **call)
    assert again["entry"] == made["entry"]
    other = await piglets.refused("session/compact", **(call | {"summary": "Other"}))
    assert other["kind"] == "idempotency_conflict"
    assert len(piglets.path.read_bytes()) > size
    await piglets.agrees()


async def test_a_summary_alone_and_messages_are_compactions_too(piglets: Piglets) -> None:
    await piglets.call("session/compact", summary="Only this")
    assert [one["content"] for one in (await piglets.agrees()).messages()] == ["Only this"]
    leaf = (await piglets.say("x"))["leaf_id"]
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": [{"text": "b"}]}]
    expected = {"leaf_id": leaf}
    await piglets.call("session/compact", messages=messages, expected=expected, tokens_before=12)
    assert piglets.last()["tokensBefore"] == 12
    assert (await piglets.agrees()).messages() == messages
    leaf = piglets.read().leaf
    refused = await piglets.refused("session/compact", messages=[], expected={"leaf_id": leaf})
    assert (refused["kind"], refused["path"]) == ("entry_invalid", "messages")
    pointer = {"type": "compaction", "summary": "s", "first_kept_entry_id": None}
    refused = await piglets.refused("session/append", entries=[pointer])
    assert refused["kind"] == "entry_invalid"


async def test_a_planned_compaction_is_stored_as_messages(piglets: Piglets) -> None:
    for index in range(4):
        await piglets.say(f"question {index}")
        answer = {"role": "assistant", "content": [{"text": f"answer {index}"}]}
        await piglets.call("append", message=answer)
    plan = (await piglets.call("session/plan_compaction", keep_recent_tokens=8))["plan"]
    await piglets.call("session/compact", plan_id=plan["plan_id"], summary="By a plan")
    told = await piglets.agrees()
    assert told.messages()[0]["content"] == "By a plan"
    assert told.messages()[-1]["content"] == [{"text": "answer 3"}]
    assert len(told.messages()) > 1


async def test_a_summary_that_the_daemon_had_written_becomes_a_message(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes((SAMPLES / "piglet.jsonl").read_bytes())
    environment = msgspec.structs.replace(
        standing_environment([]), summarizer=Command("What <happened>")
    )
    home = tmp_path / "home"
    async with running_daemon(home, environment=environment) as daemon, daemon.connect() as wire:
        await wire.call("session/open", path=str(path))
        called = {"role": "assistant", "content": [CALL]}
        await wire.call("append", session_id=ID, message=called)
        answer = {"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": []}
        await wire.call("append", session_id=ID, message=answer)
        for index in range(60):
            said = {"role": "user", "content": f"{index} " + "x" * 2000}
            await wire.call("append", session_id=ID, message=said)
        done = await wire.call("session/compact", session_id=ID)
        told = PigletFile(path.read_bytes())
        assert told.leaf == done["leaf_id"]
        summary = told.messages()[0]["content"]
        # piglet shows a summary as it is stored, so the lists of files are in it.
        assert summary.startswith("What <happened>")
        assert "src/a.py" in summary
        assert 1 < len(told.messages()) < 62
        built = await wire.call("build_context", session_id=ID)
        assert built["messages"] == told.messages()


@pytest.mark.parametrize("seed", range(3))
async def test_piglet_follows_any_row_of_changes(piglets: Piglets, seed: int) -> None:
    chance = random.Random(seed)
    for step in range(25):
        entries = list(piglets.read().items)
        one = chance.choice(entries)
        match chance.randrange(8):
            case 0 | 1:
                await piglets.say(f"step {step}")
            case 2:
                await piglets.call("session/branch", entry_id=one, head="main")
            case 3:
                await piglets.call("session/branch", entry_id=one, head="main", summary="left")
            case 4:
                await piglets.call("session/label", entry_id=one, label=chance.choice(["a", None]))
            case 5:
                await piglets.call("session/update", title=chance.choice(["T", None, f"{step}"]))
            case 6:
                path = piglets.read().path()
                on_path = chance.choice([None, *(item.id for item in path)])
                await piglets.call("session/rewind", to=on_path)
            case _:
                await piglets.say("before a compaction")
                await piglets.call("session/compact", summary=f"all up to {step}")
        await piglets.agrees()


async def test_entries_of_extensions_and_settings_come_back(piglets: Piglets) -> None:
    entries: list[Json] = [
        {"type": "custom", "custom_type": "ext:x:y", "data": {"a": 1}},
        {"type": "custom_message", "custom_type": "n", "content": "note", "display": True},
        {"type": "model_change", "model_id": "m9", "provider": "p"},
        {"type": "thinking_level_change", "thinking_level": "high"},
    ]
    stored = await piglets.call("session/append", entries=entries)
    for sent, kept in zip(entries, stored["entries"], strict=True):
        found = (await piglets.call("session/entry", entry_id=kept["id"]))["entry"]
        assert sent.items() <= found.items()
    info = (await piglets.call("session/get"))["session"]
    assert (info["model"], info["thinking_level"]) == ("m9", "high")
    assert (await piglets.agrees()).messages()[-1] == {"role": "user", "content": "note"}


async def test_what_piglet_appends_meanwhile_is_taken_in(piglets: Piglets) -> None:
    leaf = piglets.read().leaf
    theirs = piglets.path.read_bytes().splitlines()[15].replace(b"4a4b4c4d", b"feed0001")
    titled = piglets.path.read_bytes().splitlines()[16].replace(b"Auth refactor", b"By piglet")
    with piglets.path.open("ab") as file:
        file.write(theirs.replace(b"3a3b3c3d", leaf.encode()) + b"\n" + titled + b"\n")
    await piglets.say("ours")
    assert piglets.last()["parentId"] == "feed0001"
    told = await piglets.agrees()
    assert told.title == "By piglet"
    assert told.path()[-2].id == "feed0001"


async def test_an_orphan_is_shown_though_piglet_hides_it(piglets: Piglets) -> None:
    orphan = piglets.path.read_bytes().splitlines()[15].replace(b"4a4b4c4d", b"feed0001")
    with piglets.path.open("ab") as file:
        file.write(orphan.replace(b"3a3b3c3d", b"00000000") + b"\n")
    await piglets.say("below it")
    nodes = (await piglets.call("session/tree"))["nodes"]
    assert "feed0001" in [node["id"] for node in nodes]
    assert "feed0001" not in [one for one, _ in piglets.read().tree()]
    assert (await piglets.call("session/tree"))["nodes"] == nodes


async def test_it_is_listed_and_searched(piglets: Piglets) -> None:
    await piglets.say("a needle in it")
    rows = (await piglets.wire.call("session/list"))["sessions"]
    assert [(row["id"], row["title"], row["first_message"]) for row in rows] == [
        (ID, "Auth refactor", "explain the auth flow & cookies")
    ]
    found = (await piglets.wire.call("session/search", query="needle"))["hits"]
    assert [hit["session_id"] for hit in found] == [ID]


async def test_an_export_in_its_own_format_has_equal_values(piglets: Piglets) -> None:
    content = (await piglets.call("session/export", format="piglet"))["content"]
    stored = piglets.path.read_bytes().splitlines()
    assert [json.loads(line) for line in content.splitlines()] == [*map(json.loads, stored)]


async def test_an_import_keeps_the_lines_under_a_new_id(piglets: Piglets) -> None:
    made = (await piglets.wire.call("session/import", path=str(piglets.path)))["session"]
    copy = PigletFile(Path(made["path"]).read_bytes())
    told = piglets.read()
    assert copy.meta == told.meta | {"id": made["id"]}
    assert (copy.leaf, copy.messages(), copy.labels) == (told.leaf, told.messages(), told.labels)
    built = await piglets.wire.call("build_context", session_id=made["id"])
    assert built["messages"] == told.messages()
    assert (made["dialect"], made["title"]) == ("piglet", "Auth refactor")


@pytest.mark.parametrize("entries", ["path", "all", "context", "none"])
async def test_a_fork_is_a_session_of_piglets_with_a_parent(piglets: Piglets, entries: str) -> None:
    made = (await piglets.call("session/fork", entries=entries, title="Forked"))["session"]
    fork = PigletFile(Path(made["path"]).read_bytes())
    assert fork.skipped == 0
    assert (fork.meta["id"], fork.meta["parentId"]) == (made["id"], ID)
    assert (fork.title, made["title"]) == ("Forked", "Forked")
    assert (fork.meta["model"], made["model"]) == (MODEL, MODEL)
    assert made["lineage"]["parent_id"] == ID
    said = [] if entries == "none" else piglets.read().messages()
    assert fork.messages() == said
    built = await piglets.wire.call("build_context", session_id=made["id"])
    assert built["messages"] == said
    if entries == "context":
        assert fork.meta["forkPoint"] == len(said)
    await piglets.wire.call("session/update", session_id=made["id"], title="Again")
    again = PigletFile(Path(made["path"]).read_bytes())
    assert (again.title, again.meta["parentId"]) == ("Again", ID)


async def test_a_fork_without_a_link_names_no_parent(piglets: Piglets) -> None:
    made = (await piglets.call("session/fork", entries="all", link="none"))["session"]
    fork = PigletFile(Path(made["path"]).read_bytes())
    assert "parentId" not in fork.meta
    assert made["lineage"].get("parent_id") is None


async def test_a_squash_is_a_compaction_by_one_message(piglets: Piglets) -> None:
    made = await piglets.call("session/rebase", indices=[0], squash={"summary": "Squashed"})
    squashed = PigletFile(Path(made["session"]["path"]).read_bytes())
    assert [message["content"] for message in squashed.messages()] == ["Squashed"]


async def test_an_older_file_is_read_where_it_is_and_forked(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    path.write_bytes((SAMPLES / "piglet-legacy.jsonl").read_bytes())
    async with running_daemon(tmp_path / "home") as daemon, daemon.connect() as wire:
        info = (await wire.call("session/open", path=str(path)))["session"]
        assert (info["read_only"], info["read_only_reason"]) == (False, None)
        assert (info["leaf_id"], info["problems"]) == ("cafe0001", 1)
        built = await wire.call("build_context", session_id=info["id"])
        assert built["messages"] == PigletFile(path.read_bytes()).messages()
        fork = (await wire.call("session/fork", session_id=info["id"]))["session"]
        assert fork["read_only"] is False
        assert PigletFile(Path(fork["path"]).read_bytes()).messages() == built["messages"]


async def test_an_older_file_is_imported_with_its_ids_and_goes_on(piglets: Piglets) -> None:
    old = (SAMPLES / "piglet-legacy.jsonl").read_text()
    made = await piglets.wire.call("session/import", content=old)
    assert made["report"]["migrated_from"] is not None
    session_id, path = made["session"]["id"], Path(made["session"]["path"])
    message = {"role": "user", "content": "on"}
    await piglets.wire.call("append", session_id=session_id, message=message)
    told = PigletFile(path.read_bytes())
    assert [item.id for item in told.path()][:-1] == ["L0", "L1", "L2", "cafe0001"]
    built = await piglets.wire.call("build_context", session_id=session_id)
    assert built["messages"] == told.messages()


async def test_a_merge_is_a_note_and_a_message_that_piglet_reads(piglets: Piglets) -> None:
    other = (await piglets.call("session/fork"))["session"]
    await piglets.call("session/merge", other_session_id=other["id"], text="Both & one")
    told = await piglets.agrees()
    assert "Both & one" in told.messages()[-1]["content"]
    new = await piglets.call("session/merge", other_session_id=other["id"], text="Anew", into="new")
    merged = PigletFile(Path(new["session"]["path"]).read_bytes())
    assert merged.meta["parentId"] == ID
    assert len(merged.messages()) == 1


# -- the lock beside the file ----------------------------------------------------

HOLDER = """
import fcntl, sys
held = open(sys.argv[1], "a+")
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
"""


async def test_an_append_waits_for_the_lock_of_piglet_and_says_who_holds_it(
    piglets: Piglets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar, "SIDECAR_WAIT_SECONDS", 0.05)
    beside = piglets.path.with_name(f"{piglets.path.name}.lock")
    before = piglets.path.read_bytes()
    with subprocess.Popen(  # noqa: ASYNC220 - another program, as piglet is one
        [sys.executable, "-c", HOLDER, str(beside)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        refused = await piglets.wire.refusal(
            "append", session_id=ID, message={"role": "user", "content": "x"}
        )
        assert refused.data["kind"] == "storage_error"
        assert refused.data["retryable"] is True
        # Only Linux says which process has a lock.
        who = f"process {holder.pid} has" if SYSTEM is LINUX else "another program has"
        assert who in str(refused)
        assert piglets.path.read_bytes() == before
        holder.communicate("\n")
    await piglets.say("x")
    await piglets.agrees()
    assert beside.stat().st_mode & 0o777 in {0o600, 0o644, 0o664}


async def test_the_lock_file_is_private_and_stays(piglets: Piglets) -> None:
    beside = piglets.path.with_name(f"{piglets.path.name}.lock")
    await piglets.say("x")
    assert beside.stat().st_mode & 0o777 == 0o600
    inode = beside.stat().st_ino
    await piglets.say("y")
    assert beside.stat().st_ino == inode


async def test_a_retry_of_an_entry_without_a_time_is_held_against_it(piglets: Piglets) -> None:
    line = {"type": "user", "id": "timeless", "data": {"content": "hi"}}
    with piglets.path.open("ab") as file:
        file.write(json.dumps(line).encode() + b"\n")
    again = {"type": "message", "id": "timeless", "message": {"role": "user", "content": "hi"}}
    assert (await piglets.call("append", entry=again))["duplicate"]
    other = again | {"message": {"role": "user", "content": "else"}}
    assert (await piglets.refused("append", entry=other))["kind"] == "idempotency_conflict"
    assert (await piglets.say("go on"))["duplicate"] is False
