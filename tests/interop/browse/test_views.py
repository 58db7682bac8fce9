"""Views and the ways between the views, on a real daemon over a real socket."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sessiond_client import Client
from tests.interop.browse.application import SESSION, browsing, conversation
from tests.kit.line_proxy import line_proxy
from tests.kit.still_reading import UNSEARCHED, missing_rows, still_reading, whole_answers_only
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]


@pytest.mark.conformance
async def test_the_list_leads_to_a_session_an_entry_and_its_json(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Sessions of /my/project", "Fix the clock", "1 session")
        await screen.press("enter")
        await screen.shows(
            "Tree of Fix the clock", "user: Why is it late?", "▶ assistant: The cron"
        )
        await screen.press("up", "enter")
        await screen.shows("type:     message", "Why is it late?")
        await screen.press("tab")
        await screen.shows('"role": "user"', '"content": "Why is it late?"')
        await screen.press("tab")
        await screen.shows_no('"role"')
        await screen.press("escape")
        await screen.shows("Tree of Fix the clock")
        await screen.press("escape")
        await screen.shows("Sessions of /my/project")
        await screen.press("escape")
        await screen.shows("Sessions of /my/project")


async def test_a_shows_the_sessions_of_all_projects_and_of_the_project_again(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    await conversation(client, session_id="session-elsewhere", title="Elsewhere", cwd="/other")
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Fix the clock")
        assert "Elsewhere" not in screen.text
        await screen.press("a")
        await screen.shows("Sessions of all projects", "Elsewhere", "other", "2 sessions")
        await screen.press("a")
        await screen.shows_no("Elsewhere")


@pytest.mark.conformance
async def test_tab_shows_which_session_came_from_which(server: Daemon, client: Client) -> None:
    await conversation(client)
    await client.fork(SESSION, title="One fork")
    await client.fork(SESSION, title="Other fork")
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("One fork")
        await screen.press("tab")
        await screen.shows("Forest of /my/project", "├── One fork", "└── Other fork")
        await screen.press("down", "enter")
        await screen.shows("Tree of One fork")


@pytest.mark.conformance
async def test_a_list_is_live_and_goes_on_over_pages(server: Daemon, client: Client) -> None:
    for at in range(130):
        await client.create("/my/project", title=f"Number {at}", persist="immediate")
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("100+ sessions")
        await screen.press("end")
        await screen.shows("130 sessions")
        await client.create("/my/project", title="The newest", persist="immediate")
        await screen.shows("131 sessions")
        await screen.press("home")
        await screen.shows("The newest")


@pytest.mark.conformance
async def test_a_search_finds_in_the_session_and_in_all_sessions(
    server: Daemon, client: Client
) -> None:
    await conversation(client)
    await conversation(client, ["A late train"], session_id="session-elsewhere", cwd="/other")
    await conversation(client, ["A late bus"], session_id="session-beside")
    async with browsing(server.socket_path) as screen:
        await screen.shows("Why is it late?")
        await screen.press("slash", *"late", "enter")
        await screen.shows(f"Search in session {SESSION}", "1 hit", "Why is it late?")
        assert "A late" not in screen.text
        await screen.press("tab")
        await screen.shows("Search in all sessions", "3 hits", "A late train", "A late bus")
        await screen.goes_to("bus")
        await screen.press("enter")
        await screen.shows("A late bus", "label:    none")
        await screen.press("t")
        await screen.shows("Tree of", "user: A late bus")


async def test_filters_of_a_search_are_words_before_a_colon(server: Daemon, client: Client) -> None:
    call = {"type": "tool_call", "id": "c1", "name": "Bash", "arguments": {"command": "ls late"}}
    await conversation(client)
    await client.append(SESSION, message={"role": "assistant", "content": [call]})
    await client.append(SESSION, message={"role": "tool", "content": "late", "tool_call_id": "c1"})
    async with browsing(server.socket_path) as screen:
        await screen.press("slash", *"late tool:Bash", "enter")
        await screen.shows("2 hits", "[Bash] ls late", "[Bash] late")
        await screen.press("slash", *"late role:tool since:1h project:/my/project", "enter")
        await screen.shows("1 hit", "[Bash] late")
        await screen.press("slash", *"late since:x", "enter")
        await screen.shows("give a time as")


async def test_a_search_shows_hits_while_sessions_are_read_and_asks_again(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client, ["a late train", "a late bus", "a late ship"])
    place = tmp_path / "reading.sock"
    with still_reading(place, server.socket_path) as reading:
        async with browsing(place) as screen:
            await screen.shows("a late ship")
            await screen.press("slash", *"late", "enter")
            await screen.shows("1+ hits, 2 of 4 files read")
            assert sum("a late" in line for line in screen.lines) == 1
            reading.shown = 2
            await screen.shows("2+ hits, 2 of 4 files read")
            await screen.press("down")
            there = screen.cursor_line
            reading.is_over.set()
            await screen.shows("3 hits")
            assert screen.cursor_line == there
            await screen.shows_no("files read")
            await screen.shows_no("searching …")
            asked = [one["params"]["query"] for one in reading.asked if "search" in one["method"]]
            assert asked == ["late"] * len(asked)


async def test_other_words_end_a_search_that_is_still_read(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client, ["a late train", "an early bus"])
    place = tmp_path / "reading.sock"
    with still_reading(place, server.socket_path) as reading:
        async with browsing(place) as screen:
            await screen.press("slash", *"nowhere", "enter")
            await screen.shows("0+ hits, 2 of 4 files read")
            assert "no entry holds" not in screen.text
            await screen.press("ctrl+u", *"early", "enter")
            await screen.shows("1+ hits", "an early bus")
            asked = len(reading.asked)
            await screen.until(lambda: len(reading.asked) > asked + 1)
            assert {one["params"].get("query") for one in reading.asked[asked:]} <= {"early", None}


async def test_a_daemon_that_has_whole_answers_only_is_listed_and_searched(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client)
    place = tmp_path / "older.sock"
    with whole_answers_only(place, server.socket_path):
        async with browsing(place, session_id=None) as screen:
            await screen.shows("Fix the clock", "1 session")
            await screen.press("slash", *"late", "enter")
            await screen.shows("1 hit")


@pytest.mark.conformance
async def test_a_hit_far_up_is_shown_in_its_tree(server: Daemon, client: Client) -> None:
    await conversation(client, ["the needle", *(f"number {at}" for at in range(500))])
    async with browsing(server.socket_path) as screen:
        await screen.shows("number 499")
        await screen.press("slash", *"needle", "enter")
        await screen.shows("1 hit")
        await screen.press("enter")
        await screen.shows("label:    none", "the needle")
        await screen.press("t")
        await screen.shows("• user: the needle", "number 10")
        assert "the needle" in screen.cursor_line


async def test_help_names_every_key_and_q_quits(server: Daemon, client: Client) -> None:
    await conversation(client)
    async with browsing(server.socket_path, size=(80, 60)) as screen:
        await screen.shows("B branch  F fork  R rebase  M merge  L label  E export  / search")
        await screen.shows("? help  q quit")
        await screen.press("question_mark")
        for word in ("branch:", "fork:", "rebase:", "squash:", "export to a new file", "search:"):
            await screen.shows(word)
        await screen.press("escape")
        await screen.shows("Tree of")
        await screen.press("q")
        await screen.until(lambda: not screen.app.is_running)


async def test_the_first_screen_of_100_000_entries_takes_a_few_calls(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client, [])
    for at in range(0, 100_000, 500):
        texts = (f"number {n}" for n in range(at, at + 500))
        entries = [{"type": "message", "message": {"role": "user", "content": t}} for t in texts]
        await client.append(SESSION, entries=entries)
    asked: list[str] = []

    def count(line: bytes) -> list[bytes]:
        asked.append(msgspec.json.decode(line)["method"])
        return [line]

    place = tmp_path / "counted.sock"
    with line_proxy(place, server.socket_path, requests=count):
        async with browsing(place) as screen:
            await screen.shows("number 99999", "100,000 lines", "live")
            # Until then the screen says "not live".
            await screen.until(lambda: "session/subscribe" in asked)
            # The list below the tree is read again when the catalog says so.
            session = [one for one in asked if one.startswith("session/")]
            assert sorted(one for one in session if one != "session/list") == [
                *("session/entries", "session/get", "session/labels", "session/subscribe"),
            ]
            await screen.press("home")
            await screen.shows("number 99799", "number 99800")
            assert "number 99800" in screen.cursor_line
            await screen.press("home")
            await screen.shows("number 99599", "number 99600")
    assert asked.count("session/entries") == 3


async def test_the_list_and_the_search_say_what_cannot_be_read(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client)
    broken = server.profile / "sessions" / "2026-01-15T10-30-00-000000_session-b.jsonl"
    broken.write_bytes(b"no session\n")
    place = tmp_path / "missing.sock"
    with missing_rows(place, server.socket_path):
        async with browsing(place, session_id=None) as screen:
            await screen.shows("Sessions of /my/project", "1 session, 1 unreadable")
            await screen.press("/", "c", "r", "o", "n", "enter")
            before = UNSEARCHED[0]["before"][:10]
            await screen.shows(
                "1 hit, 1 unreadable", f"not searched: outputs of tools from before {before}"
            )
