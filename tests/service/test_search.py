"""Searching what was said: right after an append, after a restart, after the index was lost."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from sessiond.catalog.rows import NOTHING, Known, Mark
from sessiond.journal.disk.files import Files
from sessiond.limits import SEARCH_QUERY_CHARS_MAX
from sessiond.service.files.line_texts import file_texts
from sessiond.service.store.listed import TextsChanged
from sessiond.testing.daemon import Refusal, Wire, running_daemon
from tests.kit.calls import say
from tests.kit.house import House
from tests.kit.index import index_all


async def create_conversation(asker: Wire, session_id: str, *said: str, **more: Any) -> None:
    await asker.call(
        "session/create", **{"cwd": "/p", "session_id": session_id, "persist": "immediate", **more}
    )
    for number, text in enumerate(said):
        role = "assistant" if number % 2 else "user"
        await say(asker, text, role=role, session_id=session_id)


async def hits(asker: Wire, query: str, **more: Any) -> list[tuple[str, int]]:
    found = (await asker.call("session/search", query=query, **more))["hits"]
    return [(hit["session_id"], hit["seq"]) for hit in found]


async def test_a_search_of_one_project_leaves_the_changes_of_others_to_the_next(
    home: Path,
) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        for name in ("a", "b"):
            await create_conversation(asker, f"session-{name}", "early", cwd=f"/{name}")
        await index_all(daemon)
        for name in ("a", "b"):
            await say(asker, "word", session_id=f"session-{name}")
        assert await hits(asker, "word", cwd="/a") == [("session-a", 2)]
        assert await hits(asker, "word", session_id="session-a") == [("session-a", 2)]
        assert sorted(await hits(asker, "word")) == [("session-a", 2), ("session-b", 2)]
        await asker.call("session/delete", session_id="session-b")
        assert await hits(asker, "word") == [("session-a", 2)]


async def test_a_hit_names_the_entry_and_shows_the_words_around(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(
            asker, "session-a", "nothing", "The Überfall\ncame at \x1b dawn", title="A café"
        )
        (hit,) = (await asker.call("session/search", query="uberfall"))["hits"]
        entry = (await asker.call("session/entries", session_id="session-a"))["entries"][1]["entry"]
        assert hit == {
            "session_id": "session-a",
            "entry_id": entry["id"],
            "seq": 2,
            "snippet": "The Überfall came at \x1b dawn",
        }
        # The header is line 0: the project and the title.
        (hit,) = (await asker.call("session/search", query="CAFE"))["hits"]
        assert (hit["seq"], hit["entry_id"], hit["snippet"]) == (0, None, "/p A café")


@pytest.mark.parametrize(
    "text",
    [
        "needle" + "x" * 150_000,
        "-" * 90_000 + "needle" + "!" * 90_000,
        "word " * 3_000 + "needle " + "word " * 3_000,
        "\n" * 90_000 + "a needle" + " " * 90_000 + "z",
        "needle " + "needle " * 20_000,
    ],
    ids=["a long word", "long signs", "many words", "blanks", "many hits"],
)
async def test_a_snippet_has_a_bound_and_holds_the_words(home: Path, text: str) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", text)
        (hit,) = (await asker.call("session/search", query="needle"))["hits"]
    assert len(hit["snippet"]) <= 240
    assert "needle" in hit["snippet"]
    assert not set(hit["snippet"]) & set("\x01\x02\x03\n")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("rain", [1]),
        ("RAINS", [1]),
        ("rai spai", [1]),
        ('"rains in"', [1]),
        ('"in rains"', []),
        ("spain sun", []),
        ("plain OR sun", []),
        ("summary", [3]),
        ("renamed", [4]),
        ("custom", [5]),
        ("thought", []),
        ("grep", [6]),
        ("/p", [0]),
        ("it's", [1]),
        ("日本", [2]),
    ],
)
async def test_words_phrases_and_beginnings(home: Path, query: str, found: list[int]) -> None:
    answer = [{"type": "thinking", "thinking": "thought"}, {"type": "text", "text": "日本 sun"}]
    entries: list[Any] = [
        {"type": "message", "message": {"role": "user", "content": "It's the rains in Spain"}},
        {"type": "message", "message": {"role": "assistant", "content": answer}},
        {"type": "compaction", "summary": "A summary"},
        {"type": "session_info", "name": "Renamed"},
        {"type": "custom_message", "custom_type": "x", "content": "custom", "display": True},
        {"type": "message", "message": {"role": "tool", "content": "grep", "tool_call_id": "t"}},
        {"type": "custom", "custom_type": "grep", "data": "grep"},
    ]
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a")
        await asker.call("append", session_id="session-a", entries=entries)
        assert [seq for _, seq in await hits(asker, query)] == found


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "a AND",
        "NOT (",
        "text:a",
        "a*b^2",
        "-a",
        "{a b}",
        'a"b"c',
        "NEAR(a b)",
        "a\x00b",
    ],
)
async def test_no_query_of_words_is_an_error(home: Path, query: str) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "a b text near and not")
        if any(char.isalpha() for char in query):
            await hits(asker, query)
        else:
            with pytest.raises(Refusal, match="invalid_params"):
                await hits(asker, query)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"query": ""}, "query"),
        ({"query": " \n?!"}, "query"),
        ({"query": "x" * (SEARCH_QUERY_CHARS_MAX + 1)}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
    ],
)
async def test_what_cannot_be_searched_for(home: Path, params: Any, path: str) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        with pytest.raises(Refusal) as refused:
            await asker.call("session/search", **params)
        assert (refused.value.data["kind"], refused.value.data["path"]) == ("invalid_params", path)


async def test_every_append_is_found_right_after_its_answer(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "first")
        assert await hits(asker, "first") == [("session-a", 1)]
        for number in range(5):
            await say(asker, f"later{number}x", session_id="session-a")
            assert await hits(asker, f"later{number}x") == [("session-a", number + 2)]
        assert await hits(asker, "later") != []
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        assert await hits(asker, "later4x") == [("session-a", 6)]
        await say(asker, "after the restart", session_id="session-a")
        assert await hits(asker, "restart") == [("session-a", 7)]


async def test_which_sessions_are_searched(home: Path) -> None:
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "word", cwd="/a")
        await create_conversation(asker, "session-b", "word", cwd="/b/")
        await create_conversation(asker, "session-d", "word", persist="on_assistant")
        await create_conversation(asker, "session-m", "word", persist="never")
        await create_conversation(asker, "session-o", "word")
        await asker.call("session/archive", session_id="session-o")

        async def found(**more: Any) -> list[str]:
            return sorted(session_id for session_id, _ in await hits(asker, "word", **more))

        assert await found() == ["session-a", "session-b"]
        assert await found(cwd="/b") == ["session-b"]
        assert len(await found(limit=1)) == 1
        assert await found(drafts=True) == ["session-a", "session-b", "session-d"]
        assert await found(archived=True) == ["session-o"]
        assert await found(archived=None) == ["session-a", "session-b", "session-o"]
        # One session is named, so nothing leaves it out; a session in memory is not searched.
        for one in ("session-a", "session-d", "session-o"):
            assert await found(session_id=one, cwd="/elsewhere") == [one]
        assert await found(session_id="session-m") == []
        told = await asker.refusal("session/search", query="word", session_id="session-z")
        assert told.data["kind"] == "session_not_found"


async def test_a_deleted_session_is_found_no_more_and_a_purged_one_leaves_no_word(
    home: Path,
) -> None:
    index = home / "profiles" / "default" / "search.sqlite"
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "secretword one")
        await create_conversation(asker, "session-b", "secretword two", "other")
        assert len(await hits(asker, "secretword")) == 2
        await asker.call("session/delete", session_id="session-b")
        assert await hits(asker, "secretword") == [("session-a", 1)]
        with closing(sqlite3.connect(index)) as connection:
            there = connection.execute("SELECT session_id FROM sessions").fetchall()
        assert there == [("session-a",)]
        await asker.call("session/delete", session_id="session-a")
        await asker.call("session/purge", session_id="session-a")
        await asker.call("session/purge", session_id="session-b")
        for path in index.parent.glob("search.sqlite*"):
            assert b"secretw" not in path.read_bytes()
        assert await hits(asker, "secretword") == []


@pytest.mark.parametrize("held_by", ["a reader", "a writer"])
async def test_a_purge_waits_for_nobody_and_says_so_until_no_word_is_left(
    home: Path, held_by: str
) -> None:
    folder = home / "profiles" / "default"
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "secretword one")
        assert len(await hits(asker, "secretword")) == 1
        await asker.call("session/delete", session_id="session-a")
        with closing(sqlite3.connect(folder / "search.sqlite", isolation_level=None)) as other:
            other.execute("BEGIN" if held_by == "a reader" else "BEGIN IMMEDIATE")
            other.execute("SELECT count(*) FROM entries").fetchone()
            refused = await asker.refusal("session/purge", session_id="session-a")
            assert (refused.data["kind"], refused.data["retryable"]) == ("storage_error", True)
            other.execute("ROLLBACK")
        # Not by heart: the files are still there, and say that it is to be purged.
        assert len(list((folder / "trash").iterdir())) == 1
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await asker.call("session/purge", session_id="session-a")
        assert list((folder / "trash").iterdir()) == []
        for path in folder.glob("search.sqlite*"):
            assert b"secretw" not in path.read_bytes()


@pytest.mark.parametrize("damage", ["deleted", "damaged", "version 2", "version 99"])
async def test_a_lost_index_is_made_again(home: Path, damage: str) -> None:
    index = home / "profiles" / "default" / "search.sqlite"
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "word")
        assert not index.exists()
        assert await hits(asker, "word") == [("session-a", 1)]
        assert index.stat().st_mode & 0o777 == 0o600
        if damage == "deleted":
            index.unlink()
            assert await hits(asker, "word") == [("session-a", 1)]
    if damage == "damaged":
        index.write_bytes(b"no database" * 1000)
    elif damage.startswith("version"):
        with closing(sqlite3.connect(index)) as connection:
            connection.execute(f"PRAGMA user_version = {damage.split()[1]}")
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        assert await hits(asker, "word") == [("session-a", 1)]


async def test_a_file_of_another_program_is_searched_as_it_grows(real_house: House) -> None:
    header = '{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}'
    entry = '{"type":"message","id":"%s","parentId":null,"timestamp":"2026-01-15T10:30:00.000Z","message":{"role":"user","content":"%s","timestamp":1}}'
    path = real_house.layout.sessions / "theirs_session-p.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(
        "\n".join([header, entry % ("p1", "first words"), "no JSON", entry % ("p2", "no end")])
    )
    async with real_house.daemon() as daemon, daemon.connect() as asker:
        assert await hits(asker, "first") == [("session-p", 1)]
        # A line that lacks only its newline is a line, in lists as in an opening.
        assert await hits(asker, "end") == [("session-p", 3)]
    with path.open("a") as file:
        file.write("\n" + entry % ("p3", "grown since") + "\n")
    async with real_house.daemon() as daemon, daemon.connect() as asker:
        assert await hits(asker, "grown") == [("session-p", 4)]
        assert await hits(asker, "end") == [("session-p", 3)]
    # Another file in its place.
    path.write_text("\n".join([header, entry % ("q1", "replaced"), ""]))
    async with real_house.daemon() as daemon, daemon.connect() as asker:
        assert await hits(asker, "replaced") == [("session-p", 1)]
        assert await hits(asker, "grown") == []
    # And a longer one: it does not go on where the other was left.
    longer = [header, *(entry % (f"r{number}", f"longer{number}") for number in range(9)), ""]
    path.write_text("\n".join(longer))
    async with real_house.daemon() as daemon, daemon.connect() as asker:
        assert await hits(asker, "longer0") == [("session-p", 1)]
        assert await hits(asker, "replaced") == []


def test_a_file_that_is_not_the_one_that_was_noted_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    lines = [
        b'{"type":"session","version":3,"id":"session-p","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}',
        b"{}",
    ]
    path.write_bytes(b"\n".join([*lines, b""]))
    good = Mark("epoch", 1, hashlib.sha256(b"{}").hexdigest())
    bad = [Mark("epoch", 1, "another"), Mark("epoch", 2, good.seen_digest)]
    (_, texts), *_ = file_texts(Files(), Known("s", str(path), good, NOTHING, listed=True), None)
    assert [text.said.text for text in texts] == ["/p"]
    for mark in bad:
        with pytest.raises(TextsChanged):
            list(file_texts(Files(), Known("s", str(path), mark, NOTHING, listed=True), None))


async def test_an_open_session_whose_file_is_gone_does_not_keep_the_others_from_being_found(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "elsewhere.jsonl"
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "the word")
        exported = await asker.call("session/export", session_id="session-a")
        path.write_text(exported["content"].replace("session-a", "session-b"), "utf-8")
        await asker.call("session/open", path=str(path))
        path.unlink()
        assert await hits(asker, "word") == [("session-a", 1)]


async def test_a_disk_that_refuses_the_index_refuses_the_search_only(home: Path) -> None:
    index = home / "profiles" / "default" / "search.sqlite"
    async with running_daemon(home) as daemon, daemon.connect() as asker:
        await create_conversation(asker, "session-a", "word")
        index.mkdir()
        with pytest.raises(Refusal, match="storage_error"):
            await hits(asker, "word")
        await say(asker, "goes on", session_id="session-a")
        await to_thread.run_sync(index.rmdir)
        assert await hits(asker, "goes") == [("session-a", 2)]
