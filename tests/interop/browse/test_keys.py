"""Each key that changes a session, pressed; then what the daemon has stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond_client import Client
from tests.interop.browse.application import SESSION, Application, browsing, conversation
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

TEXTS = ("Why is it late?", "The cron job.", "And now?", "Fixed.")


async def heads(client: Client) -> dict[str, str | None]:
    return {head.name: head.leaf_id for head in await client.heads(SESSION)}


async def newest(client: Client) -> str:
    """Return the id of the session that was made last."""
    page = await client.list(sort="created_at", order="desc", limit=1)
    return page.sessions[0].id


async def messages(client: Client, session_id: str) -> list[str]:
    """Return the texts of the messages on the path of main."""
    page = await client.path(session_id)
    rows = [row.entry for row in page.entries if row.entry["type"] == "message"]
    return [str(row["message"]["content"]) for row in rows]


async def opened(screen: Application) -> None:
    await screen.shows("▶ assistant: Fixed.")


async def test_b_moves_main_to_the_entry(server: Daemon, client: Client) -> None:
    ids = await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.goes_to("The cron job.")
        await screen.press("B")
        await screen.shows("Branch at entry", "“The cron job.”")
        await screen.press("enter")
        await screen.shows("head main stands at", "▶ assistant: The cron job.")
    assert await heads(client) == {"main": ids[1]}


@pytest.mark.conformance
async def test_b_makes_a_head_of_another_name_and_escape_makes_none(
    server: Daemon, client: Client
) -> None:
    ids = await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.goes_to("Why is it late?")
        await screen.press("b")
        await screen.shows("Branch at entry")
        await screen.press("escape")
        await screen.shows_no("Branch at entry")
        await screen.press("b")
        await screen.shows("Branch at entry")
        # What is typed takes the place of the name that stands in the line.
        await screen.press(*"reviewer", "enter")
        await screen.shows("head reviewer stands at", "◀ reviewer user: Why is it late?")
    assert await heads(client) == {"main": ids[3], "reviewer": ids[0]}


async def test_f_makes_a_session_of_the_path_to_the_entry(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.goes_to("The cron job.")
        await screen.press("F")
        await screen.shows("Fork entry")
        await screen.type("Another way")
        await screen.shows("Tree of Another way", "▶ assistant: The cron job.", "this is the fork")
        await screen.press("escape")
        await screen.shows("Tree of Fix the clock")
    fork = await newest(client)
    info = await client.get(fork)
    assert (info.title, (info.lineage or {})["parent_id"]) == ("Another way", SESSION)
    assert await messages(client, fork) == ["Why is it late?", "The cron job."]


async def test_f_in_the_list_forks_the_session(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Fix the clock")
        await screen.press("F")
        await screen.shows("Fork session")
        await screen.press("enter")
        await screen.shows("this is the fork", "▶ assistant: Fixed.")
        await screen.press("escape")
        await screen.shows("2 sessions")


@pytest.mark.conformance
async def test_r_makes_a_session_of_chosen_entries(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("R")
        await screen.shows("0 of 4 chosen", "[ ] assistant: Fixed.")
        await screen.press("enter")
        await screen.shows("choose entries first")
        await screen.press("space", "up", "up", "up", "space")
        await screen.shows("2 of 4 chosen", "[x] assistant: Fixed.", "[x] user: Why is it late?")
        await screen.press("enter")
        await screen.shows(
            "this is the new session", "user: Why is it late?", "▶ assistant: Fixed."
        )
        await screen.press("escape")
        await screen.shows("Tree of Fix the clock")
    made = await newest(client)
    assert await messages(client, made) == ["Why is it late?", "Fixed."]
    assert ((await client.get(made)).lineage or {})["rebased_from"] == SESSION


async def test_a_chooses_all_and_none_and_s_squashes(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("r")
        await screen.shows("0 of 4 chosen")
        await screen.press("a")
        await screen.shows("4 of 4 chosen, as they are")
        await screen.press("a")
        await screen.shows("0 of 4 chosen")
        await screen.press("a", "s")
        await screen.shows("4 of 4 chosen, squashed")
        await screen.press("s")
        await screen.shows("as they are")
        await screen.press("s", "enter")
        await screen.shows("Squash 4 entries into a new session")
        await screen.type("The cron job was late.")
        await screen.shows("this is the new session", "▶ compaction: The cron job was late.")
    context = await client.build_context(await newest(client))
    assert [one["summary"] for one in context.messages] == ["The cron job was late."]


@pytest.mark.conformance
async def test_m_brings_another_session_in(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    await conversation(client, ["A train"], session_id="session-other", title="The other one")
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("M")
        await screen.shows("Merge which session", "The other one")
        assert "Fix the clock" not in screen.text.partition("Merge which")[2]
        await screen.press("enter")
        await screen.shows("Text of the merge")
        await screen.type("Both were late.")
        await screen.shows("merged: head main", "▶ assistant: Both were late.")
    page = await client.path(SESSION)
    (note,) = [row.entry for row in page.entries if row.entry["type"] == "custom"]
    assert note["data"]["session_id"] == "session-other"


async def test_a_merge_without_a_text_says_who_could_write_it(
    server: Daemon, client: Client
) -> None:
    await conversation(client, TEXTS)
    await conversation(client, ["A train"], session_id="session-other", title="The other one")
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("M")
        await screen.shows("The other one")
        await screen.press("enter")
        await screen.shows("Text of the merge")
        await screen.press("enter")
        await screen.shows("type a text instead")
    assert len((await client.path(SESSION)).entries) == 4


async def test_l_labels_an_entry_and_clears_the_label(server: Daemon, client: Client) -> None:
    ids = await conversation(client, TEXTS)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.goes_to("And now?")
        await screen.press("L")
        await screen.shows("Label entry")
        await screen.type("the question")
        await screen.shows("[the question] user: And now?")
        assert (await client.entry(SESSION, ids[2])).label == "the question"
        await screen.press("enter")
        await screen.shows("label:    the question")
        await screen.press("l")
        await screen.shows("Label entry")
        await screen.type("")
        await screen.shows("label:    none", "the label is gone")
    assert (await client.entry(SESSION, ids[2])).label is None


async def test_e_writes_a_new_file_and_never_over_another(
    server: Daemon, client: Client, tmp_path: Path
) -> None:
    await conversation(client, TEXTS)
    there = tmp_path / "there.jsonl"
    there.write_text("mine")
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("E")
        await screen.shows("Export session", f"{SESSION}.jsonl")
        await screen.type(str(there))
        await screen.shows("nothing was overwritten")
        await screen.type(str(tmp_path / "page.md"))
        await screen.shows("exported to")
        await screen.press("e")
        await screen.shows("Export session")
        await screen.type(str(tmp_path / "copy.jsonl"))
        await screen.until((tmp_path / "copy.jsonl").exists)
    assert there.read_text() == "mine"
    assert (tmp_path / "page.md").read_text().startswith("# Fix the clock\n")
    assert len((tmp_path / "copy.jsonl").read_text().splitlines()) >= 5


async def test_a_key_that_needs_an_entry_says_so_in_the_list(
    server: Daemon, client: Client
) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Fix the clock")
        await screen.press("L")
        await screen.shows("put the cursor on an entry first")


@pytest.mark.parametrize("way", ["list", "forest"])
async def test_b_in_the_list_makes_a_child_that_goes_on_at_the_end(
    server: Daemon, client: Client, way: str
) -> None:
    await conversation(client, TEXTS)
    before = await heads(client)
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Fix the clock")
        if way == "forest":
            await screen.press("tab")
            await screen.shows("Forest of")
        await screen.press("B")
        await screen.shows("Branch session")
        await screen.type("Another way")
        await screen.shows("Tree of Another way", "▶ assistant: Fixed.", "this is the branch")
        await screen.press("escape")
        await screen.shows("2 sessions")
    made = await newest(client)
    assert ((await client.get(made)).lineage or {})["parent_id"] == SESSION
    assert await messages(client, made) == list(TEXTS)
    assert await heads(client) == before


@pytest.mark.parametrize("way", ["list", "forest"])
async def test_r_in_the_list_rebases_the_session(server: Daemon, client: Client, way: str) -> None:
    await conversation(client, TEXTS)
    async with browsing(server.socket_path, session_id=None) as screen:
        await screen.shows("Fix the clock")
        if way == "forest":
            await screen.press("tab")
            await screen.shows("Forest of")
        await screen.press("R")
        await screen.shows("0 of 4 chosen")
        await screen.press("space", "up", "up", "up", "space", "enter")
        await screen.shows("this is the new session", "▶ assistant: Fixed.")
        await screen.press("escape")
        await screen.shows("2 sessions")
    assert await messages(client, await newest(client)) == ["Why is it late?", "Fixed."]


async def test_a_refusal_is_one_line_with_what_to_do(server: Daemon, client: Client) -> None:
    await conversation(client, TEXTS)
    await client.archive(SESSION)
    async with browsing(server.socket_path) as screen:
        await opened(screen)
        await screen.press("L")
        await screen.shows("Label entry")
        await screen.type("late")
        await screen.shows("press F to fork it, or bring it back")
        await screen.press("F")
        await screen.shows("Fork entry")
        await screen.press("enter")
        await screen.shows("this is the fork")
