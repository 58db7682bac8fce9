"""The catalog: pages against a plain model, older files, files that are gone, damaged or full."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.catalog.catalog import Catalog
from sessiond.catalog.finding import find_by_ref
from sessiond.catalog.forest import plant, tree_of
from sessiond.catalog.query import BadCursor, Query, cursor_of, position_of
from sessiond.catalog.rows import NOTHING, Facts, Fingerprint, Known, Mark, Stored
from sessiond.catalog.schema import COLUMNS
from tests.kit.catalogs import relative

MARK = Mark("epoch-1", 3, "digest")
SEEN = Fingerprint(1, 2, 3)
TITLES = ["", "Clock", "clock", "Straße", "STRASSE 5%", "ünïcödé_"]
TIMES = ["", "2026-01-01T00:00:00.000Z", "2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z"]


def stored(number: int, **given: Any) -> Stored:
    facts: dict[str, Any] = {
        "cwd": "/p",
        "title": None,
        "agent": None,
        "status": None,
        "program": "native",
        "archived": False,
        "draft": False,
        "subagent": False,
        "has_assistant": True,
        "created_at": TIMES[1],
        "updated_at": TIMES[1],
        "message_count": 0,
        "first_message": None,
        "tags": (),
        "parent_id": None,
        "parent_path": None,
    }
    session_id = f"session-{number:03d}"
    path = given.pop("path", f"/home/sessions/{session_id}.jsonl")
    return Stored(session_id, path, MARK, SEEN, Facts(**{**facts, **given}), session_id.encode())


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path / "catalog.sqlite", lambda _text: None)
    yield made
    made.close()


def ids(catalog: Catalog, query: Query, limit: int = 1000) -> list[str]:
    return [row[2] for row in catalog.page(query, limit, None)[0]]


# -- pages against a model -----------------------------------------------------------------


def any_row(number: int) -> st.SearchStrategy[Stored]:
    return st.builds(
        lambda facts: stored(number, **facts),
        st.fixed_dictionaries(
            {
                "cwd": st.sampled_from(["/p", "/q"]),
                "title": st.sampled_from([None, *TITLES]),
                "agent": st.sampled_from([None, "coder"]),
                "status": st.sampled_from([None, "busy"]),
                "archived": st.booleans(),
                "draft": st.booleans(),
                "created_at": st.sampled_from(TIMES),
                "updated_at": st.sampled_from(TIMES),
                "message_count": st.integers(0, 3),
                "first_message": st.sampled_from([None, "Why is the CLOCK late?"]),
                "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3),
                "path": st.sampled_from(
                    [None, f"/home/a/{number}.jsonl", f"/home/b/{number}.jsonl"]
                ),
            }
        ),
    )


queries = st.builds(
    Query,
    cwd=st.sampled_from([None, "/p"]),
    tags=st.sampled_from([(), ("a",), ("a", "b")]),
    agent=st.sampled_from([None, "coder"]),
    status=st.sampled_from([None, "busy"]),
    archived=st.sampled_from([False, True, None]),
    title=st.sampled_from([None, "CLOCK", "strasse", "%", "_"]),
    words=st.sampled_from([None, "clock late", "/p", "straße"]),
    created_after=st.sampled_from([None, *TIMES[1:]]),
    created_before=st.sampled_from([None, *TIMES[1:]]),
    updated_after=st.sampled_from([None, *TIMES[1:]]),
    updated_before=st.sampled_from([None, *TIMES[1:]]),
    root=st.sampled_from([None, "/home", "/home/a", "/hom"]),
    drafts=st.booleans(),
    sort=st.sampled_from(["updated_at", "created_at", "title", "message_count"]),
    descending=st.booleans(),
)


def fits(row: Stored, query: Query) -> bool:
    """Return whether a row matches a query, as protocol.md defines the filters."""
    facts = row.facts
    said = [facts.title or "", facts.first_message or "", facts.cwd]
    return all(
        (
            query.cwd in {None, facts.cwd},
            set(query.tags) <= set(facts.tags),
            query.agent in {None, facts.agent},
            query.status in {None, facts.status},
            query.archived in {None, facts.archived},
            query.title is None or query.title.casefold() in said[0].casefold(),
            query.words is None or any(query.words.casefold() in text.casefold() for text in said),
            all(
                (earliest is None or time >= earliest) and (end is None or "" < time < end)
                for time, earliest, end in (
                    (facts.created_at, query.created_after, query.created_before),
                    (facts.updated_at, query.updated_after, query.updated_before),
                )
            ),
            query.root is None or (row.path or "").startswith(query.root + "/"),
            query.drafts or not facts.draft,
        )
    )


def position(row: Stored, query: Query) -> tuple[Any, str]:
    facts = row.facts
    keys = {
        "updated_at": facts.updated_at,
        "created_at": facts.created_at,
        "title": (facts.title or "").casefold(),
        "message_count": facts.message_count,
    }
    return keys[query.sort], row.session_id


@given(data=st.data(), query=queries, limit=st.integers(1, 7))
def test_pages_give_what_did_not_change_once_whatever_else_does(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, query: Query, limit: int
) -> None:
    rows = {n: data.draw(any_row(n)) for n in range(data.draw(st.integers(0, 12)))}
    catalog = Catalog(tmp_path_factory.mktemp("c") / "catalog.sqlite", lambda _text: None)
    catalog.put(list(rows.values()))
    still = set(rows)
    given_out: list[str] = []
    cursor: str | None = None
    try:
        while True:
            after = None if cursor is None else position_of(query, cursor)
            page, more = catalog.page(query, limit, after)
            expected = sorted(
                (position(row, query) for row in rows.values() if fits(row, query)),
                reverse=query.descending,
            )
            if after is not None:
                expected = [p for p in expected if (p < after if query.descending else p > after)]
            assert [(row[1], row[2]) for row in page] == expected[:limit]
            assert more == (len(expected) > limit)
            given_out += [row[2] for row in page]
            if not more:
                break
            cursor = cursor_of(query, (page[-1][1], page[-1][2]))
            # Between pages anything may come, change or go.
            for number in data.draw(st.lists(st.integers(0, 15), max_size=3)):
                still.discard(number)
                if number in rows and data.draw(st.booleans()):
                    catalog.put((), gone=[rows.pop(number).session_id])
                else:
                    rows[number] = data.draw(any_row(number))
                    catalog.put([rows[number]])
    finally:
        catalog.close()
    unchanged = {rows[n].session_id for n in still if fits(rows[n], query)}
    assert unchanged <= set(given_out)
    assert all(given_out.count(session_id) == 1 for session_id in unchanged)


def test_a_cursor_goes_with_its_query_only() -> None:
    query = Query(cwd="/p")
    cursor = cursor_of(query, ("2026", "session-001"))
    assert position_of(query, cursor) == ("2026", "session-001")
    for other in (Query(), Query(cwd="/p", descending=False), Query(cwd="/p", sort="title")):
        with pytest.raises(BadCursor):
            position_of(other, cursor)


@pytest.mark.parametrize("text", ["", "x", "é", "====", "WyJ4Il0", "2026 session-001", "A" * 5000])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        position_of(Query(), text)


# -- the file --------------------------------------------------------------------------------

VERSION_1 = """
CREATE TABLE sessions (session_id TEXT PRIMARY KEY, path TEXT NOT NULL, epoch TEXT NOT NULL,
    seen_seq INTEGER NOT NULL, seen_digest TEXT NOT NULL, inode INTEGER NOT NULL,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, info BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX sessions_by_path ON sessions (path);
PRAGMA user_version = 1;
"""


def test_epochs_of_version_1_are_carried_over_and_nothing_else_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(VERSION_1)
        row = ("session-001", "/p/x", "epoch-old", 7, "digest-old", 1, 2, 3, b"{}")
        old.execute("INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?)", row)
    old.close()
    for _ in range(2):
        catalog = Catalog(path, lambda _text: None)
        known = catalog.known("session-001")
        catalog.close()
        assert known is not None
        assert (known.path, known.mark) == ("/p/x", Mark("epoch-old", 7, "digest-old"))
        assert (known.listed, known.fingerprint) == (False, Fingerprint(0, 0, 0))


def catalog_of_version(path: Path, version: int) -> None:
    """Make a catalog with one session, as versions 3 to 9 made one."""
    catalog = Catalog(path, lambda _text: None)
    catalog.put([stored(1, tags=("blue",))])
    catalog.close()
    with sqlite3.connect(path) as older:
        if version < 6:
            older.execute("ALTER TABLE sessions ADD COLUMN summary BLOB NOT NULL DEFAULT x''")
        if version < 8:
            older.execute("ALTER TABLE sessions DROP COLUMN program")
        older.execute("ALTER TABLE sessions DROP COLUMN subagent")
        older.execute(f"PRAGMA user_version = {version}")
    older.close()


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7, 8, 9])
def test_rows_of_an_earlier_version_stay_and_are_read_again(tmp_path: Path, version: int) -> None:
    path = tmp_path / "catalog.sqlite"
    catalog_of_version(path, version)
    for _ in range(2):
        catalog = Catalog(path, lambda _text: None)
        known = catalog.known("session-001")
        tagged = ids(catalog, Query(tags=("blue",)))
        catalog.close()
        seen = stored(1).fingerprint if version == 9 else NOTHING
        assert known == Known("session-001", stored(1).path or "", MARK, seen, listed=True)
        assert tagged == ["session-001"]
    with sqlite3.connect(path) as now:
        columns = [column[1] for column in now.execute("PRAGMA table_info(sessions)")]
    now.close()
    assert ", ".join(columns) == COLUMNS


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize(("read_only", "reason"), [(True, "bad_line"), (False, None)])
def test_rows_of_an_earlier_version_say_why_a_session_is_read_only(
    tmp_path: Path, version: int, read_only: bool, reason: str | None
) -> None:
    path = tmp_path / "catalog.sqlite"
    catalog_of_version(path, version)
    before = {"title": 'é\u2028"', "read_only": read_only, "usage": {"cost": 0.1}}
    with sqlite3.connect(path) as older:
        older.execute("UPDATE sessions SET info = ?", (json.dumps(before).encode(),))
    older.close()
    Catalog(path, lambda _text: None).close()
    with sqlite3.connect(path) as now:
        ((info,),) = now.execute("SELECT info FROM sessions")
    now.close()
    assert isinstance(info, bytes)
    assert json.loads(info) == {**before, "read_only_reason": reason}


@pytest.mark.parametrize("version", [3, 6, 7])
def test_rows_of_an_earlier_version_name_their_program(tmp_path: Path, version: int) -> None:
    path = tmp_path / "catalog.sqlite"
    catalog_of_version(path, version)
    with sqlite3.connect(path) as older:
        older.execute("UPDATE sessions SET info = ?", (b'{"dialect":"pi"}',))
    older.close()
    catalog = Catalog(path, lambda _text: None)
    ((info, _, _),) = catalog.page(Query(program="pi"), 10, None)[0]
    other = catalog.page(Query(program="native"), 10, None)[0]
    catalog.close()
    assert json.loads(info)["agent_program"] == "pi"
    assert other == []


def test_a_file_that_cannot_be_written_is_stood_in_for_until_it_can(tmp_path: Path) -> None:
    path, told = tmp_path / "catalog.sqlite", list[str]()
    catalog = Catalog(path, told.append)
    catalog.put([stored(1), stored(2, path=None)])
    catalog.ask(lambda connection: connection.execute("PRAGMA query_only = ON"))
    catalog.put([stored(3)])
    assert sorted(ids(catalog, Query())) == ["session-001", "session-002", "session-003"]
    assert (catalog.file.stands_in, catalog.file.generation, len(told)) == (True, 0, 1)
    catalog.put([stored(4)])
    assert len(told) == 1
    catalog.file.look()
    assert not catalog.file.stands_in
    assert len(ids(catalog, Query())) == 4
    catalog.close()
    again = Catalog(path, told.append)
    # A session in memory is never written to the file.
    assert sorted(ids(again, Query())) == ["session-001", "session-003", "session-004"]
    again.close()


# -- refs and descent ------------------------------------------------------------------------


def refs(catalog: Catalog, ref: str) -> list[str]:
    found = catalog.ask(lambda connection: find_by_ref(connection, ref, 20))
    return [one.brief.session_id for one in found]


def test_an_id_wins_over_its_beginning_and_that_over_a_title(catalog: Catalog) -> None:
    catalog.put(
        [
            stored(1, title="session-002"),
            stored(2, title="Clock"),
            stored(3, title="clock"),
            stored(4, title="The clock", archived=True),
            stored(5, title="session-", draft=True),
        ]
    )
    assert refs(catalog, "session-002") == ["session-002"]
    assert len(refs(catalog, "sess")) == 5
    assert refs(catalog, "ses") == ["session-001"]
    assert refs(catalog, "Clock") == ["session-002"]
    assert refs(catalog, "CLOCK") == ["session-002", "session-003"]
    assert refs(catalog, "the cl") == ["session-004"]
    assert refs(catalog, "%lock") == refs(catalog, "nothing") == []


def test_a_forest_has_every_session_once_and_circles_are_cut_at_the_oldest() -> None:
    sessions = [
        relative("s1"),
        relative("s2", "s1"),
        relative("s3", parent_path="/x/s1"),
        relative("s4", "s9"),
        relative("s5", "s7"),
        relative("s6", "s5"),
        relative("s7", "s6"),
        relative("s8", "s8"),
    ]
    rows = [(r.session.session_id, r.parent_id, r.depth, r.children) for r in plant(sessions)]
    assert rows == [
        ("s1", None, 0, 2),
        ("s2", "s1", 1, 0),
        ("s3", "s1", 1, 0),
        ("s4", None, 0, 0),
        ("s5", None, 0, 1),
        ("s6", "s5", 1, 1),
        ("s7", "s6", 2, 0),
        ("s8", None, 0, 0),
    ]
    orphans = {row.session.session_id for row in plant(sessions) if row.is_orphan}
    assert orphans == {"s4", "s5", "s8"}
    assert [one.session_id for one in tree_of("s7", sessions)] == ["s5", "s6", "s7"]
    assert tree_of("s0", sessions) == []


@given(st.lists(st.integers(0, 12), max_size=12))
def test_whatever_parents_are_claimed_every_session_stands_there_once(parents: list[int]) -> None:
    sessions = [relative(f"s{n}", f"s{parent}") for n, parent in enumerate(parents)]
    rows = list(plant(sessions))
    assert sorted(row.session.session_id for row in rows) == sorted(
        one.session_id for one in sessions
    )
    seen: set[str | None] = {None}
    for row in rows:
        assert row.parent_id in seen
        seen.add(row.session.session_id)
