"""Bounds of a read of opencode's store: a value over a bound costs its own row only."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessiond.errors import TooLarge
from sessiond.journal.disk.files import Files
from sessiond.service.sources.agents.opencode.database import Database
from sessiond.service.sources.agents.opencode.paths import Paths
from sessiond.service.sources.agents.opencode.rows import TOO_LONG
from sessiond.service.sources.agents.opencode.source import StoreSource
from sessiond.service.sources.agents.opencode.store import (
    AgentStore,
    choose,
    found_store,
    stored_lines,
)
from tests.kit.limits import set_limits
from tests.kit.opencode import (
    BEGAN,
    COUNTING,
    ENDLESS,
    FOOTER,
    database,
    sessions_as,
    store_at,
    text,
    with_message,
    with_session,
)

LONG = 100_000
SILENT = sessions_as(f"{COUNTING} SELECT 'ses_' || i, 't', '/p', 1, 1 FROM n WHERE i < 0")
LARGE = sessions_as(f"SELECT 'ses_1', hex(zeroblob({LONG})), '/p', 1, 1")


def lines_of(store: AgentStore, session_id: str | None = FOOTER) -> list[dict[str, Any]]:
    chosen = choose(store, Path("x"), session_id)
    return [json.loads(line) for line in stored_lines(store, chosen.session)]


def short(patch: pytest.MonkeyPatch, longest: int = 20_000) -> None:
    set_limits(patch, OPENCODE_MESSAGE_BYTES_MAX=longest)


@pytest.mark.parametrize(
    ("view", "limit", "words"),
    [
        (ENDLESS, ("OPENCODE_ROWS_BYTES_MAX", 50_000), "more rows than"),
        (SILENT, ("OPENCODE_STEPS_MAX", 300_000), "more than 300000 steps"),
        (SILENT, ("OPENCODE_READ_SECONDS", 0.0), "more than 0 s"),
        (LARGE, ("OPENCODE_MESSAGE_BYTES_MAX", 20_000), "more than 20000 bytes"),
    ],
    ids=["endless", "silent", "slow", "large"],
)
def test_a_view_without_an_end_is_refused(
    view: list[Any],
    limit: tuple[str, float],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_limits(monkeypatch, **dict([limit]))
    store = Database(database(tmp_path / "opencode.db", sql=view), Files())
    for read in (store.sessions, store.changes):
        with pytest.raises(TooLarge, match=words):
            read()


def test_a_copy_has_its_bound_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, left = database(tmp_path / "written.db"), tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE later (id)")
        # Without the index of its log, a database is read from a copy.
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{left}{ending}")
    store = Database(left, Files())
    assert store.sessions()
    set_limits(monkeypatch, OPENCODE_READ_SECONDS=-1.0)
    with pytest.raises(TooLarge, match="one read of the database"):
        store.sessions()


def test_a_view_without_rows_ends_by_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPENCODE_STEPS_MAX=300_000)
    with pytest.raises(TooLarge) as told:
        Database(database(tmp_path / "opencode.db", sql=SILENT), Files()).sessions()
    assert 300_000 < told.value.data()["size"] <= 400_000


def test_a_read_that_was_refused_is_repeated_behind_a_change_or_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(Files):
        seconds = 100.0

        def now(self) -> float:
            return super().now() + self.seconds

    set_limits(monkeypatch, OPENCODE_STEPS_MAX=100_000)
    path = database(tmp_path / "opencode.db", sql=SILENT)
    files, asked = Later(), list[Path]()
    paths, changes = Paths(files), Database.changes

    def counted(one: Database) -> Any:
        asked.append(path)
        return changes(one)

    monkeypatch.setattr(Database, "changes", counted)

    def look() -> int:
        with pytest.raises(OSError, match="steps of SQLite"):
            paths.listdir(path)
        return len(asked)

    assert [look(), look(), look()] == [1, 1, 1]
    files.seconds += 61
    assert [look(), look()] == [2, 2]
    path.write_bytes(database(tmp_path / "other.db", sql=ENDLESS[:1] + SILENT[1:]).read_bytes())
    assert [look(), look()] == [3, 3]


def test_a_row_that_is_too_long_costs_no_other_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)
    long = with_session("ses_long", title="t" * LONG)
    store = store_at(database(tmp_path / "opencode.db", sql=[long]))
    found = {one.id: one for one in store.sessions()}
    assert (found["ses_long"].title, found["ses_long"].directory) == ("", "")
    assert found[FOOTER].title == "Add a footer"


def test_a_text_of_a_row_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, OPENCODE_COLUMN_CHARS_MAX=1000)
    long = with_session("ses_long", title="é" * LONG)
    store = store_at(database(tmp_path / "opencode.db", sql=[long]))
    found = {one.id: one for one in store.sessions()}
    assert found["ses_long"].title == "é" * 1000


@pytest.mark.parametrize("is_blob", [False, True])
def test_a_part_that_is_too_long_is_named_in_its_place(
    is_blob: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)
    sql = with_message(
        FOOTER, "msg_y", 10**6, {"role": "user"}, text("before"), text("x" * LONG), text("behind")
    )
    if is_blob:
        sql.append(("UPDATE part SET data = zeroblob(?) WHERE length(data) > 20000", (LONG,)))
    *_, last = lines_of(store_at(database(tmp_path / "opencode.db", sql=sql)))
    before, left_out, behind = last["parts"]
    assert (before["text"], behind["text"]) == ("before", "behind")
    assert left_out == json.loads(TOO_LONG) | {"id": "prt_msg_y_1"}


def test_a_message_takes_parts_up_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)
    parts = [text("x" * 9_000) for _ in range(4)]
    sql = with_message(FOOTER, "msg_y", 10**6, {"role": "user"}, *parts)
    *_, last = lines_of(store_at(database(tmp_path / "opencode.db", sql=sql)))
    assert [part["type"] for part in last["parts"]] == ["text", "text", "too_long", "too_long"]


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_a_session_is_the_same_in_batches_of_any_size(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(database(tmp_path / "opencode.db", name))
    session_id = store.sessions()[0].id
    whole = lines_of(store, session_id)
    set_limits(monkeypatch, OPENCODE_BATCH_BYTES=1)
    assert lines_of(store, session_id) == whole
    ids = [line["id"] for line in whole if "id" in line and line["type"] != "session"]
    contents = store.contents(session_id)
    assert contents is not None
    assert [one.id for one in store.messages(contents, ids)] == ids[:1]


def test_a_file_of_a_tree_that_is_too_long_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short(monkeypatch)

    class Counting(Files):
        read = 0

        def pread(self, fd: int, size: int, at: int) -> bytes:
            found = super().pread(fd, size, at)
            Counting.read += len(found)
            return found

    storage = tmp_path / "storage"
    for place, content in {
        "session/p/ses_1": {"id": "ses_1", "title": "t", "directory": "/p"},
        "message/ses_1/msg_1": {"role": "user", "time": {"created": BEGAN}},
        "part/msg_1/prt_1": text("x" * LONG),
        "part/msg_1/prt_2": text("kept"),
    }.items():
        path = storage / f"{place}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    store = found_store(tmp_path, Counting())
    assert store is not None
    (session,) = store.sessions()
    *_, last = map(json.loads, stored_lines(store, session))
    assert [part["type"] for part in last["parts"]] == ["too_long", "text"]
    assert Counting.read < LONG


def test_a_list_holds_few_large_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits(monkeypatch, AGENT_LIST_BYTES_MAX=10_000, OPENCODE_BATCH_BYTES=10_000)
    sql = [
        statement
        for number in range(12)
        for statement in with_message(
            FOOTER, f"msg_z{number:02}", 10**6 + number, {"role": "user"}, text("x" * 9_000)
        )
    ]
    path = database(tmp_path / "opencode.db", sql=sql)
    chosen = choose(store_at(path), path, FOOTER)
    sample = StoreSource(chosen, path, Files(), is_sample=True)
    lines = [*sample.more(), *sample.more()]
    assert sample.more() == []
    assert sample.is_part
    assert sum(map(len, lines)) < 40_000
    ids = [json.loads(line)["id"] for line in lines]
    assert ids[0] == FOOTER
    assert ids[-1] == "msg_z11"
