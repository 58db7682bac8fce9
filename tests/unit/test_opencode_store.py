"""Stores of opencode are read beside their writer, and no byte in their folder changes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents.opencode_lines import StoredMessage
from sessiond.errors import InvalidParams, SessionCorrupt, StorageError
from sessiond.journal.disk.files import Files
from sessiond.service.sources.agents.opencode import database as opencode_database
from sessiond.service.sources.agents.opencode.database import Database
from sessiond.service.sources.agents.opencode.store import (
    AgentStore,
    choose,
    found_store,
    parents_first,
    stored_lines,
)
from tests.kit.limits import set_limits
from tests.kit.opencode import (
    BEGAN,
    FOOTER,
    OPENCODE,
    RENAME,
    TREE,
    database,
    store_at,
    text,
    with_message,
    with_session,
)

LATER = "UPDATE message SET time_updated = time_updated + 1"


def words(store: AgentStore, source_id: str = FOOTER) -> list[str]:
    """Return the texts of all parts of a session."""
    lines = stored_lines(store, choose(store, Path("x"), source_id).session)
    parts = [part for line in lines for part in json.loads(line).get("parts", ())]
    return [part["text"] for part in parts if part["type"] == "text"]


@contextmanager
def unchanged(folder: Path) -> Generator[None]:
    """Fail if a file in the folder changes, comes or goes; the index of a log is its readers' too."""

    def state() -> dict[str, tuple[bytes, int]]:
        files = [path for path in folder.iterdir() if not path.name.endswith("-shm")]
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}

    names, before = sorted(folder.iterdir()), state()
    yield
    assert sorted(folder.iterdir()) == names
    assert state() == before


@contextmanager
def writing(path: Path) -> Generator[sqlite3.Connection]:
    """Have another program's connection to a database; what it commits stays in the log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


def say(connection: sqlite3.Connection, number: int) -> str:
    """Commit one more message to the session of the sample; return its text."""
    said = f"more {number}"
    connection.execute("BEGIN")
    for sql in with_message(FOOTER, f"msg_z{number}", 10**6 + number, {"role": "user"}, text(said)):
        connection.execute(*sql)
    connection.execute("COMMIT")
    return said


def test_a_database_at_rest_leaves_no_file_beside_it(tmp_path: Path) -> None:
    store = store_at(database(tmp_path / "opencode.db"))
    tmp_path.chmod(0o555)
    with unchanged(tmp_path):
        assert words(store)[-1] == "deploy"
        assert [path.name for path in tmp_path.iterdir()] == ["opencode.db"]


def test_a_session_is_read_while_a_writer_holds_the_log(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    store = store_at(path)
    with writing(path) as connection:
        said = say(connection, 1)
        # A transaction that has not ended is nobody else's.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM part")
        with unchanged(tmp_path):
            assert words(store)[-1] == said
        connection.execute("ROLLBACK")
        assert say(connection, 2) == words(store)[-1]


def test_a_log_without_its_index_is_read_from_a_copy(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    left = tmp_path / "left"
    left.mkdir()
    with writing(path) as connection:
        said = say(connection, 1)
        for name in ("opencode.db", "opencode.db-wal"):
            shutil.copy(tmp_path / name, left / name)
    store = store_at(left / "opencode.db")
    left.chmod(0o555)
    with unchanged(left):
        assert words(store)[-1] == said


@pytest.mark.parametrize("journal", ["DELETE", "TRUNCATE"])
def test_a_database_without_a_log_is_read(tmp_path: Path, journal: str) -> None:
    path = database(tmp_path / "opencode.db", sql=[(f"PRAGMA journal_mode = {journal}", ())])
    with unchanged(tmp_path):
        assert words(store_at(path))[-1] == "deploy"


class Meddled(Files):
    """A disk on which another program works behind each of the first looks at a file's header."""

    def __init__(self, meddle: Callable[[], None], times: int) -> None:
        self._meddle = meddle
        self._left = times

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        """Return the bytes, and let the other program work."""
        found = super().pread(fd, count, offset)
        if self._left and count == 100:
            self._left -= 1
            self._meddle()
        return found


def test_what_changes_under_a_reader_without_locks_is_read_again(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    said: list[str] = []

    def meddle() -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            said.append(say(connection, len(said)))

    store = Database(path, Meddled(meddle, 2))
    assert words(store)[-1] == said[-1]
    store = Database(path, Meddled(meddle, 10**6))
    with pytest.raises(StorageError, match="another program is writing to it") as caught:
        store.sessions()
    assert caught.value.data()["retryable"] is True


class Closing(Files):
    """A disk on which the last writer closes the database when a reader comes for the log."""

    def __init__(self, path: Path, writer: sqlite3.Connection) -> None:
        self._path = path
        self._writer = writer

    def stat(self, path: Path) -> Any:
        """Return the state of a file; a reader that comes first finds no index."""
        if path.name.endswith("-shm"):
            raise FileNotFoundError
        return super().stat(path)

    def open_read(self, path: Path) -> int:
        """Open a file behind the writer's end."""
        if path.name.endswith("-wal"):
            self._writer.close()
        return super().open_read(path)


def test_a_log_that_ends_under_its_reader_is_read_again(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    writer = sqlite3.connect(path, isolation_level=None)
    said = say(writer, 1)
    assert words(Database(path, Closing(path, writer)))[-1] == said
    assert [one.name for one in tmp_path.iterdir()] == ["opencode.db"]


def test_a_database_that_is_locked_is_storage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencode_database, "OPENCODE_BUSY_SECONDS", 0.01)
    path = database(tmp_path / "opencode.db", sql=[("PRAGMA journal_mode = DELETE", ())])
    with writing(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(LATER)
        with pytest.raises(StorageError, match="another program") as caught:
            store_at(path).sessions()
    assert caught.value.data()["errno"] == "EBUSY"
    # Before the commit the writer has a file of its own, which is nobody's to remove.
    assert words(store_at(path))[-1] == "deploy"


def test_a_damaged_database_is_session_corrupt(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(SessionCorrupt, match="damaged"):
        store_at(path).sessions()


def test_only_a_database_or_a_tree_is_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"SQLite")
    for path in (tmp_path / "a.db", tmp_path, tmp_path / "none"):
        assert found_store(path, Files()) is None
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        connection.execute("CREATE TABLE t(x)")
    with pytest.raises(SessionCorrupt, match=r"b\.db has no session"):
        choose(store_at(tmp_path / "b.db"), tmp_path / "b.db", None)


def test_a_session_is_named_by_its_id(tmp_path: Path) -> None:
    more = [with_session(f"ses_{at:02}", time_updated=BEGAN + at) for at in range(30)]
    store = store_at(database(tmp_path / "opencode.db", sql=more))
    assert len(store.sessions()) == 31
    assert choose(store, tmp_path, "ses_07").session.title == "ses_07"
    for source_id in (None, "ses_99"):
        with pytest.raises(InvalidParams) as caught:
            choose(store, tmp_path, source_id)
        data = caught.value.data()
        assert data["path"] == "source_id"
        # The last updated first.
        assert data["available"] == [FOOTER, *(f"ses_{at:02}" for at in range(29, 10, -1))]


def test_parents_come_before_their_children(tmp_path: Path) -> None:
    family = {"ses_c": "ses_b", "ses_b": "ses_a", "ses_a": None, "ses_x": "ses_y", "ses_y": "ses_x"}
    more = [with_session(one, parent_id=above) for one, above in family.items()]
    more.append(with_session("ses_o", parent_id="ses_gone"))
    found = parents_first(store_at(database(tmp_path / "opencode.db", sql=more)).sessions())
    ids = [one.id for one in found]
    assert sorted(ids) == sorted([*family, "ses_o", FOOTER])
    assert ids.index("ses_a") < ids.index("ses_b") < ids.index("ses_c")


def both(path: Path, v1_at: int, v2_at: int) -> AgentStore:
    """Return a database with the tables of both versions, and when each was written last."""
    database(path)
    script = (OPENCODE / "v2-sqlite.sql").read_text("utf-8").replace(RENAME, FOOTER)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(script)
        connection.execute("UPDATE message SET time_updated = ?", (v1_at,))
        connection.execute("UPDATE part SET time_updated = ?", (v1_at,))
        connection.execute("UPDATE session_message SET time_updated = ?", (v2_at,))
    return store_at(path)


def test_of_two_versions_the_one_that_was_written_last_counts(tmp_path: Path) -> None:
    def kinds(store: AgentStore) -> set[str]:
        (one,) = store.sessions()
        assert one.title == "Rename page"
        return {json.loads(line)["type"] for line in stored_lines(store, one)}

    assert "row" in kinds(both(tmp_path / "a.db", 1, 2))
    assert "row" not in kinds(both(tmp_path / "b.db", 2, 1))


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE session_message",
        "ALTER TABLE session_message DROP COLUMN seq",
        "DELETE FROM session_message",
    ],
)
def test_tables_of_version_2_that_are_not_in_use_count_for_nothing(
    tmp_path: Path, statement: str
) -> None:
    both(tmp_path / "a.db", 1, 2)
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute(statement)
    assert words(store_at(tmp_path / "a.db"))[-1] == "deploy"


def test_columns_that_an_older_version_lacks_are_missing(tmp_path: Path) -> None:
    dropped = [
        (f"ALTER TABLE session DROP COLUMN {name}", ()) for name in ("revert", "parent_id", "cost")
    ]
    (one,) = store_at(database(tmp_path / "opencode.db", sql=dropped)).sessions()
    assert (one.id, one.parent_id, one.directory) == (FOOTER, None, "/home/ann/site")


def test_rows_that_are_no_objects_are_lines_of_their_own(tmp_path: Path) -> None:
    bad = with_message(FOOTER, "msg_y", 10**6, "{no", "{nor", text("lost"))
    bad += with_message(FOOTER, "msg_z", 10**6, {"role": "user"}, text("kept"), "[7]")
    store = store_at(database(tmp_path / "opencode.db", sql=bad))
    lines = list(stored_lines(store, choose(store, tmp_path, None).session))
    assert lines[-3:-2] == [b"{no"]
    assert json.loads(lines[-2])["parts"][0]["text"] == "kept"
    assert lines[-1] == b"[7]"


def test_the_lines_of_a_session_come_a_batch_of_messages_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, OPENCODE_BATCH_BYTES=1)
    store = store_at(database(tmp_path / "opencode.db"))
    asked: list[int] = []
    messages = store.messages

    def counted(contents: Any, ids: Sequence[str]) -> list[StoredMessage]:
        found = messages(contents, ids)
        asked.append(len(found))
        return found

    monkeypatch.setattr(store, "messages", counted)
    lines = stored_lines(store, choose(store, tmp_path, FOOTER).session)
    assert asked == []
    next(lines)
    next(lines)
    assert asked == [1]
    assert len(list(lines)) > sum(asked[1:]) > 1


def tree(folder: Path, files: dict[str, Any]) -> Path:
    """Write a tree of files."""
    for name, content in files.items():
        path = folder / "storage" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2))
    return folder


def test_ids_of_a_tree_come_from_the_names_of_its_files(tmp_path: Path) -> None:
    shutil.copytree(TREE, tmp_path, dirs_exist_ok=True)
    other = {"id": "other", "sessionID": "other", "messageID": "other"}
    words_in = {"role": "user", "time": {"created": BEGAN + 5}}
    tree(
        tmp_path,
        {
            f"message/{FOOTER}/msg_b": other | words_in,
            f"message/{FOOTER}/msg_0": other | words_in | {"time": {"created": BEGAN + 10**6}},
            "part/msg_b/prt_b": other | text("third"),
            "part/msg_0/prt_0": other | text("fourth"),
        },
    )
    store = store_at(tmp_path / "storage")
    # Messages come in the order of their times.
    assert words(store) == ["add a footer", "third", "Footer added.", "fourth"]
    lines = list(stored_lines(store, store.sessions()[0]))
    assert json.loads(lines[2])["id"] == "msg_b"
    assert json.loads(lines[2])["parts"][0]["id"] == "prt_b"


def test_a_session_of_a_tree_without_a_folder_has_that_of_its_project(tmp_path: Path) -> None:
    said = {"title": "t", "time": {"created": BEGAN, "updated": BEGAN}, "parentID": "ses_0"}
    store = store_at(
        tree(
            tmp_path,
            {"session/p/ses_1": said, "project/p": {"worktree": "/w"}, "message/ses_1/m": {}},
        )
    )
    (one,) = store.sessions()
    assert (one.id, one.directory, one.parent_id, one.time_created) == (
        "ses_1",
        "/w",
        "ses_0",
        BEGAN,
    )
    assert len(list(stored_lines(store, one))) == 2


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("UPDATE session SET title = 'by a writer'")
print("open", flush=True)
sys.stdin.read()
connection.close()
print("closed", flush=True)
"""


class Ended(Files):
    """A disk on which the last writer ends behind a reader's last look at the index of the log."""

    def __init__(self, writer: subprocess.Popen[bytes]) -> None:
        self._writer = writer
        self._looks = 0

    def stat(self, path: Path) -> Any:
        """Return the state of a file; let the writer end behind the second look at the index."""
        found = super().stat(path)
        self._looks += path.name.endswith("-shm")
        if self._looks > 1 and self._writer.stdin is not None:
            self._writer.stdin.close()
            self._writer.stdin = None
            assert self._writer.stdout is not None
            assert self._writer.stdout.readline() == b"closed\n"
        return found


def test_a_writer_that_ends_before_its_reader_leaves_no_new_log(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"open\n"
        log = path.with_name("opencode.db-wal")
        content = log.read_bytes()
        store = Database(path, Ended(writer))
        assert store.sessions()[0].title == "by a writer"
    # The reader kept the log where it was, and made none.
    assert log.read_bytes() == content != b""
    assert store.sessions()[0].title == "by a writer"
