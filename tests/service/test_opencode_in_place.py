"""Sessions of opencode where they lie: rows that their program changes while sessiond follows them."""

from __future__ import annotations

import errno
import json
import random
import shutil
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.journal.disk.files import Files
from sessiond.limits import SCAN_SECONDS
from sessiond.service.external.watcher import PollingWatcher, Watcher
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.sources.agents.opencode.places import watched_path
from sessiond.testing.wire import Wire
from tests.kit.calls import call, create, session_info
from tests.kit.clock import let_pass
from tests.kit.house import House
from tests.kit.inotify import inotify_watcher
from tests.kit.limits import set_limits
from tests.kit.opencode import (
    FOOTER,
    RENAME,
    TREE,
    database,
    text,
    tool,
    with_message,
    with_session,
)
from tests.kit.roots import add_root, ids
from tests.kit.sessions import HI, SESSION
from tests.service.test_agents_in_place import context, state_of

LATE = 10**7


class Writer:
    """The connection of opencode to its database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.number = 0

    def run(self, sql: str, *values: Any) -> None:
        """Run a statement as a transaction of its own."""
        self.connection.execute(sql, values)

    def touch(self) -> None:
        """Note that the session of the sample has changed."""
        self.run(
            "UPDATE session SET time_updated = ? WHERE id = ?", int(time.time() * 1000), FOOTER
        )

    def begin(self, data: Any, *parts: Any, session_id: str = FOOTER) -> str:
        """Add a message behind all others; return its id."""
        self.number += 1
        message_id = f"msg_z{self.number}"
        is_alone = not self.connection.in_transaction
        if is_alone:
            self.run("BEGIN")
        for sql, values in with_message(session_id, message_id, LATE + self.number, data, *parts):
            self.run(sql, *values)
        self.stamp(message_id)
        if is_alone:
            self.run("COMMIT")
        return message_id

    def stamp(self, message_id: str) -> None:
        """Note that a message and its parts have changed just now."""
        for table, column in (("message", "id"), ("part", "message_id")):
            ask = f"UPDATE {table} SET time_updated = ? WHERE {column} = ?"
            self.run(ask, int(time.time() * 1000), message_id)

    def prompt(self, said: str) -> str:
        """Add a prompt; return its id."""
        return self.begin({"role": "user"}, text(said))

    def part(self, message_id: str, number: int, part: Any) -> None:
        """Add a part to a message, or put it in the place of one."""
        values = (
            f"prt_{message_id}_{number}",
            message_id,
            FOOTER,
            0,
            int(time.time() * 1000),
            json.dumps(part),
        )
        self.run("INSERT OR REPLACE INTO part VALUES(?, ?, ?, ?, ?, ?)", *values)

    def change(self, message_id: str, **data: Any) -> None:
        """Change the members of a message."""
        ask = "SELECT data FROM message WHERE id = ?"
        (found,) = self.connection.execute(ask, (message_id,)).fetchone()
        changed = json.dumps(json.loads(found) | data)
        ask = "UPDATE message SET data = ?, time_updated = ? WHERE id = ?"
        self.run(ask, changed, int(time.time() * 1000), message_id)

    def end(self, message_id: str) -> None:
        """Let an answer be whole."""
        self.change(message_id, time={"created": 1, "completed": 2}, finish="stop")

    def answer(self, said: str) -> str:
        """Add a whole answer; return its id."""
        message_id = self.begin(
            {"role": "assistant", "modelID": "m", "providerID": "p"}, text(said)
        )
        self.end(message_id)
        return message_id


@contextmanager
def writing(path: Path) -> Generator[Writer]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield Writer(connection)


class Followed:
    """A session that a connection subscribed to, and the program that writes to the session."""

    def __init__(self, wire: Wire, writer: Writer, path: Path) -> None:
        self.wire = wire
        self.writer = writer
        self.path = path

    async def told(self) -> dict[str, Any]:
        """Return the next notification, but for the one that a subscription has reached the end of a log."""
        while (told := await self.wire.next_notification())["method"] == "session/synced":
            pass
        return dict(told)

    async def said(self) -> str:
        """Return the text of the next event, which is a message."""
        told = await self.told()
        assert told["method"] == "session/event", told
        content = told["params"]["entry"]["message"]["content"]
        return content if isinstance(content, str) else "".join(one["text"] for one in content)

    async def replaced(self) -> list[tuple[str, str]]:
        """Wait until the session is another log; return the context then."""
        told = await self.told()
        assert told["method"] == "session/replaced", told
        return await context(self.wire, FOOTER)


@pytest.fixture(params=["told", "polled"])
def watcher(request: pytest.FixtureRequest, real_house: House) -> Watcher:
    # The polling looks at the state of a session as a list does.
    polling = PollingWatcher(Paths(real_house.files), 0.01)
    if request.param == "polled":
        return polling
    return inotify_watcher(polling, pytest.fail, watched_path)


@pytest.fixture
async def followed(real_house: House, tmp_path: Path, watcher: Watcher) -> AsyncGenerator[Followed]:
    root = tmp_path.resolve() / "opencode"
    root.mkdir()
    path = database(root / "opencode.db")
    with writing(path) as writer:
        async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
            await add_root(wire, root)
            await ids(wire)
            await wire.call("subscribe", session_id=FOOTER)
            yield Followed(wire, writer, path)


async def test_an_answer_comes_as_an_event_once_it_is_whole(followed: Followed) -> None:
    writer = followed.writer
    writer.prompt("one more")
    answer = writer.begin({"role": "assistant", "modelID": "m", "providerID": "p"})
    assert await followed.said() == "one more"
    for said in ("No", "Now", "Now it is there."):
        writer.part(answer, 0, text(said))
        writer.touch()
    writer.part(answer, 1, tool("call_z", "running"))
    writer.part(answer, 1, tool("call_z", output="done"))
    before = await session_info(followed.wire, FOOTER)
    writer.end(answer)
    event = (await followed.told())["params"]
    assert event["seq"] == before["seq"] + 1
    assert [block["type"] for block in event["entry"]["message"]["content"]] == [
        "text",
        "toolCall",
        "tool_result",
    ]
    found = (await context(followed.wire, FOOTER))[-3:]
    assert found == [
        ("user", "one more"),
        ("assistant", "Now it is there."),
        ("toolResult", "done"),
    ]
    # What opencode notes at a prompt later is nothing that the model sees.
    writer.change("msg_z1", summary={"diffs": []})
    writer.answer("again")
    assert await followed.said() == "again"
    assert (await session_info(followed.wire, FOOTER))["epoch"] == before["epoch"]


def clear_an_output(writer: Writer) -> None:
    ask = "SELECT data FROM part WHERE id = ?"
    (found,) = writer.connection.execute(ask, ("prt_a40000000006AAAAAAAAAAAAAA",)).fetchone()
    part = json.loads(found)
    part["state"]["time"] = {"start": 1, "end": 2, "compacted": 3}
    writer.run(
        "UPDATE part SET data = ?, time_updated = ? WHERE id = ?",
        json.dumps(part),
        int(time.time() * 1000),
        "prt_a40000000006AAAAAAAAAAAAAA",
    )


def remove_a_message(writer: Writer) -> None:
    writer.run("DELETE FROM message WHERE id = 'msg_a40000000003AAAAAAAAAAAAAA'")
    writer.touch()


def add_a_message_before(writer: Writer) -> None:
    for sql, values in with_message(FOOTER, "msg_early", 1500, {"role": "user"}, text("early")):
        writer.run(sql, *values)
    writer.touch()


def change_the_title(writer: Writer) -> None:
    writer.run("UPDATE session SET title = 'Another' WHERE id = ?", FOOTER)


CHANGES: dict[str, Callable[[Writer], None]] = {
    "an output that is cleared": clear_an_output,
    "a message that is removed": remove_a_message,
    "a message before others": add_a_message_before,
    "a title": change_the_title,
}


@pytest.mark.parametrize("how", CHANGES)
async def test_a_change_in_place_is_another_log(followed: Followed, how: str) -> None:
    before = await session_info(followed.wire, FOOTER)
    CHANGES[how](followed.writer)
    await followed.replaced()
    now = await session_info(followed.wire, FOOTER)
    assert now["epoch"] != before["epoch"]
    assert now["title"] == ("Another" if how == "a title" else "Add a footer")


async def test_a_revert_is_a_move_and_its_end_another_log(followed: Followed) -> None:
    writer = followed.writer
    whole = await context(followed.wire, FOOTER)
    revert = "UPDATE session SET revert = ?, time_updated = time_updated + 1 WHERE id = ?"
    writer.run(revert, json.dumps({"messageID": "msg_a40000000011AAAAAAAAAAAAAA"}), FOOTER)
    told = await followed.told()
    assert (told["method"], told["params"]["entry"]["type"]) == ("session/event", "leaf")
    assert await context(followed.wire, FOOTER) == whole[:-1]
    writer.run(revert, None, FOOTER)
    assert await followed.replaced() == whole
    # A prompt removes what was reverted.
    writer.run(revert, json.dumps({"messageID": "msg_a40000000011AAAAAAAAAAAAAA"}), FOOTER)
    # The lines of the other log come first.
    while (await followed.told())["params"].get("entry", {}).get("type") != "leaf":
        pass
    writer.connection.execute("BEGIN")
    writer.run("DELETE FROM message WHERE id = 'msg_a40000000011AAAAAAAAAAAAAA'")
    writer.run(revert, None, FOOTER)
    writer.prompt("otherwise")
    writer.answer("so be it")
    writer.connection.execute("COMMIT")
    after = [("user", "otherwise"), ("assistant", "so be it")]
    assert await followed.replaced() == [*whole[:-1], *after]


async def test_an_answer_that_never_ended_is_passed_once_opencode_goes_on(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = followed.writer
    writer.begin({"role": "assistant", "modelID": "m"}, text("half of it"))
    writer.prompt("again")
    writer.answer("here it is")
    assert [await followed.said() for _ in range(3)] == ["half of it", "again", "here it is"]
    # Nor does one hold the session back for ever.
    writer.begin({"role": "assistant", "modelID": "m"}, text("another half"))
    writer.touch()
    set_limits(monkeypatch, OPENCODE_ANSWER_SECONDS=0.0)
    writer.touch()
    assert await followed.said() == "another half"


async def test_an_epoch_outlives_a_restart_and_growth(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path)
        await ids(wire)
        told = await wire.call("subscribe", session_id=FOOTER)
        cursor = {"epoch": told["epoch"], "seq": told["seq"]}
    with writing(path) as writer:
        writer.answer("meanwhile")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await ids(wire)
        again = await wire.call("subscribe", session_id=FOOTER, after=cursor)
        assert again["epoch"] == cursor["epoch"]
        event = (await wire.next_notification())["params"]
        assert "meanwhile" in json.dumps(event["entry"])
        assert event["seq"] == cursor["seq"] + 1
    with writing(path) as writer:
        clear_an_output(writer)
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await ids(wire)
        assert (await session_info(wire, FOOTER))["epoch"] != cursor["epoch"]


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
async def test_lists_and_searches_follow_the_rows(
    real_house: House, tmp_path: Path, journal: str
) -> None:
    path = database(tmp_path / "opencode.db", sql=[(f"PRAGMA journal_mode = {journal}", ())])

    async def found(words: str) -> list[str]:
        real_house.seconds += SCAN_SECONDS
        hits = (await wire.call("session/search", query=words, subagents=True))["hits"]
        return [hit["session_id"] for hit in hits]

    async with real_house.daemon() as daemon, daemon.connect() as wire:
        (root,) = [
            one
            for one in (await wire.call("catalog/roots", action="add", path=str(tmp_path)))["roots"]
            if one["added"]
        ]
        assert (root["kind"], root["sessions"]) == ("opencode", 1)
        assert root["bytes"] >= path.stat().st_size
        assert await ids(wire) == [FOOTER]
        with writing(path) as writer:
            for sql, values in (
                with_session("ses_other", parent_id=FOOTER),
                with_session("ses_empty"),
            ):
                writer.run(sql, *values)
            writer.begin({"role": "user"}, text("zebra"), session_id="ses_other")
            assert await ids(wire) == [FOOTER]
            found_all = await wire.call("session/list", subagents=True)
            lineage = {one["id"]: one.get("lineage", {}) for one in found_all["sessions"]}
            assert lineage["ses_other"] == {"parent_id": FOOTER, "subagent": True}
            assert lineage.keys() == {FOOTER, "ses_other"}
            assert await found("zebra") == ["ses_other"]
            writer.run("DELETE FROM message WHERE session_id = 'ses_other'")
            writer.run("DELETE FROM part WHERE session_id = 'ses_other'")
            writer.run("DELETE FROM session WHERE id = 'ses_other'")
            assert await found("zebra") == []
            assert (await wire.refusal("session/get", session_id="ses_other")).data["kind"] == (
                "session_not_found"
            )
            writer.answer("giraffe")
            assert await found("giraffe") == [FOOTER]
        path.unlink()
        assert await ids(wire) == []


async def test_a_session_is_opened_by_its_place_without_a_root(
    real_house: House, tmp_path: Path
) -> None:
    path = database(tmp_path.resolve() / "opencode.db")
    tree = tmp_path.resolve() / "old"
    shutil.copytree(TREE, tree)
    (old,) = (tree / "storage" / "session").rglob("ses_*.json")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        for place, count in ((path / FOOTER, 5), (old, 2)):
            opened = (await wire.call("session/open", path=str(place)))["session"]
            assert opened["path"] == str(place)
            assert opened["agent_program"] == "opencode"
            assert len(await context(wire, opened["id"])) >= count
        for missing in (
            *(path / "ses_none", path / RENAME, path.with_name("no.db") / FOOTER),
            old.with_name("ses_none.json"),
        ):
            refused = await wire.refusal("session/open", path=str(missing))
            assert refused.data["kind"] == "storage_error", missing
            assert refused.data["errno"] == "ENOENT"


def test_a_path_of_no_session_does_not_exist(tmp_path: Path) -> None:
    path, paths = database(tmp_path / "opencode.db"), Paths(Files())
    assert paths.exists(path / FOOTER)
    shutil.copytree(TREE, tmp_path / "old")
    (old,) = (tmp_path / "old" / "storage" / "session").rglob("ses_*.json")
    assert paths.exists(old)
    for missing in (
        *(path / "ses_none", path.with_name("no.db") / FOOTER, path / FOOTER / "more"),
        old.with_name("ses_none.json"),
    ):
        assert not paths.exists(missing)


async def test_a_database_may_be_a_root_itself(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path.resolve() / "opencode.db")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        added = await add_root(wire, path)
        assert (added["kind"], added["sessions"]) == ("opencode", 1)
        assert added["bytes"] == path.stat().st_size
        assert await ids(wire) == [FOOTER]
        assert (await wire.call("session/search", query="deploy"))["hits"]
        await wire.call("catalog/roots", action="remove", path=str(path))
        assert await ids(wire) == []


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("is_halved", [False, True], ids=["at once", "in two writes"])
async def test_a_tree_is_followed(
    real_house: House, tmp_path: Path, watcher: Watcher, is_halved: bool
) -> None:
    root = tmp_path.resolve() / "opencode"
    shutil.copytree(TREE, root)
    storage = root / "storage"
    (place,) = (storage / "session").rglob("ses_*.json")
    async with real_house.daemon(watcher) as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert await ids(wire) == [FOOTER]
        await wire.call("subscribe", session_id=FOOTER)
        before = state_of(root)
        part = storage / "part" / "msg_z1" / "prt_1.json"
        part.parent.mkdir()
        part.write_text(json.dumps(text("more")), "utf-8")
        data = json.dumps({"role": "user", "time": {"created": int(time.time() * 1000)}})
        message = storage / "message" / FOOTER / "msg_z1.json"
        if is_halved:
            # opencode writes in place, and a look may come in between.
            about = place.read_text("utf-8")
            place.write_text(about[:20], "utf-8")
            message.write_text(data[:20], "utf-8")
            await let_pass(0.3)
            place.write_text(about, "utf-8")
        message.write_text(data, "utf-8")
        place.touch()
        event = (await wire.next_notification())["params"]
        assert event["entry"]["message"]["content"] == "more"
        assert before.items() - state_of(root).items() <= {
            (name, one) for name, one in before.items() if Path(name).is_dir() or name == str(place)
        }


async def test_a_list_reads_both_ends_of_a_long_session(real_house: House, tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    with writing(path) as writer:
        writer.connection.execute("BEGIN")
        for number in range(300):
            writer.prompt(f"prompt {number}")
        writer.run("UPDATE message SET time_updated = 1793880000000")
        writer.run("UPDATE part SET time_updated = 1793880000000")
        writer.connection.execute("COMMIT")
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path)
        (shown,) = (await wire.call("session/list"))["sessions"]
        assert shown["partial"] is True
        assert shown["first_message"] == "add a footer"
        whole = await session_info(wire, FOOTER)
        assert whole["message_total"] > 300 > shown["message_total"]
        assert whole["epoch"] == shown["epoch"]
        (hit,) = (await wire.call("session/search", query="prompt 150"))["hits"]
        assert hit["session_id"] == FOOTER
        assert (await wire.call("session/verify", session_id=FOOTER))["ok"] is True


async def test_a_database_that_is_locked_keeps_its_sessions_in_lists(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPENCODE_BUSY_SECONDS=0.05)
    journal = ("PRAGMA journal_mode = DELETE", ())
    path = database(tmp_path / "opencode.db", sql=[journal])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, tmp_path)
        assert await ids(wire) == [FOOTER]
        await create(wire, SESSION, persist="immediate")
        await call(wire, "append", message=HI)
        with writing(path) as writer:
            writer.touch()
            writer.run("BEGIN EXCLUSIVE")
            real_house.seconds += SCAN_SECONDS
            assert await ids(wire) == [FOOTER, SESSION]
            # The search of the other sessions goes on, and names what it lacks.
            found = await wire.call("session/search", query="hi")
            assert [hit["session_id"] for hit in found["hits"]] == [SESSION]
            (unread,) = found["unreadable"]
            assert unread["path"] == f"{path.resolve()}/{FOOTER}"
            assert "another program is writing to it" in unread["reason"]
            (root,) = (await wire.call("catalog/roots"))["roots"]
            assert "another program is writing to it" in root["reason"]
            writer.run("ROLLBACK")
        found = await wire.call("session/search", query="footer")
        assert "unreadable" not in found
        assert not any("checked" in hit for hit in found["hits"])
        with writing(path) as writer:
            writer.run("BEGIN EXCLUSIVE")
            unseen = (await wire.call("session/search", query="footer"))["hits"]
            assert unseen == [hit | {"checked": False} for hit in found["hits"]] != []
            writer.run("ROLLBACK")
        (root,) = (await wire.call("catalog/roots"))["roots"]
        assert root["reason"] is None


class Closed(Files):
    """A disk on which one database belongs to somebody else."""

    def open_read(self, path: Path) -> int:
        """Open a file, but not that database."""
        if path.name == "opencode.db":
            raise PermissionError(errno.EACCES, "Permission denied")
        return super().open_read(path)


async def test_a_database_that_cannot_be_opened_hides_no_other_session(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path.resolve() / "opencode"
    root.mkdir()
    path = database(root / "opencode.db")
    database(root / "opencode-beta.db", "v2")
    async with House(home, Closed()).daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "opencode")
        listed = await wire.call("session/list")
        assert [one["id"] for one in listed["sessions"]] == [RENAME]
        (told,) = listed["unreadable"]
        assert told == {"path": str(path), "reason": "cannot be read: Permission denied"}


@pytest.mark.parametrize("seed", range(12))
async def test_a_damaged_database_hides_no_other_session(
    real_house: House, tmp_path: Path, seed: int
) -> None:
    root = tmp_path.resolve() / "opencode"
    root.mkdir()
    path = database(root / "opencode.db")
    database(root / "opencode-beta.db", "v2")
    dice = random.Random(seed)
    with path.open("r+b") as file:
        content = bytearray(file.read())
        for _ in range(1 + seed * 20):
            content[dice.randrange(100, len(content))] = dice.randrange(256)
        file.seek(0)
        file.write(content[: len(content) if seed % 3 else len(content) // 2])
        file.truncate()
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "opencode")
        listed = await wire.call("session/list")
        shown = {one["id"] for one in listed["sessions"]}
        assert RENAME in shown
        for one in listed["unreadable"]:
            assert one["path"].startswith(str(path))
            assert one["reason"]
        for session_id in shown:
            await wire.answer(await wire.request("session/build_context", session_id=session_id))
        assert (await wire.call("session/search", query="undo"))["hits"]
