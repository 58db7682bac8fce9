"""Lists, outlines, tokens, searches and messages, which follow what other clients do."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.test_stubs import kill_the_daemon, python_client, said
from tests.interop.vscode.acts import Drive, say, stored, write_many
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_a_list_shows_sessions_of_its_folders_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str], home: Path
) -> None:
    js = drive()
    js(
        """
        s.list = new core.SessionList(connection, () => folders, changed);
        await s.list.refresh();
        s.titles = () => s.list.sessions.map(core.titleOf);
        """,
        folders=[str(home)],
    )
    assert js("return s.titles()") == ["Fix it"]
    with python_client(environment) as client:
        client.create("/elsewhere", title="Theirs", persist="immediate")
        client.create(str(home), title="Came later", persist="immediate")
        assert js("return until(() => s.titles().length > 1 && s.titles())") == [
            "Came later",
            "Fix it",
        ]
        client.update(session, title="Mended")
        assert js("return until(() => s.titles().includes('Mended') && s.titles())")
        kill_the_daemon(environment)
    with python_client(environment) as client:
        client.create(str(home), title="After the kill", persist="immediate")
    titles = js("return until(() => s.titles().includes('After the kill') && s.titles())")
    assert sorted(titles) == ["After the kill", "Came later", "Mended"]


def test_an_outline_shows_branches_labels_and_heads_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(
        """
        s.outline = new core.SessionOutline(connection, feeds, session_id, changed);
        await s.outline.read();
        const words = ({preview, label, heads, branches}) =>
            [preview, label, heads, branches.map((rows) => rows.map(words))];
        s.words = async () => (await s.outline.read()).rows.map(words);
        """,
        session_id=session,
    )
    assert js("return s.words()") == [
        ["Why is it late?", None, [], []],
        ["The clock.", None, ["main"], []],
    ]
    assert js("return (await s.outline.read()).rows.map(({kind}) => kind)") == ["user", "user"]
    with python_client(environment) as client:
        first, second = (row.entry["id"] for row in client.entries(session).entries)
        client.branch(session, first, head="side")
        client.append(session, head="side", message={"role": "user", "content": "Time zone."})
        client.branch(session, first)
        client.append(session, message={"role": "user", "content": "The battery."})
        client.label(session, second, "wrong")
    whole = [
        [
            "Why is it late?",
            None,
            [],
            [[["The clock.", "wrong", [], []]], [["Time zone.", None, ["side"], []]]],
        ],
        ["The battery.", None, ["main"], []],
    ]
    js(
        "await until(async () => JSON.stringify(await s.words()) === whole)",
        whole=json.dumps(whole, separators=(",", ":")),
    )


def test_a_long_session_is_outlined_by_the_end_of_its_path(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        write_many(client, 2000)
    js = drive()
    outline = js(
        "return core.readOutline(await connection.client(), session_id)", session_id=session
    )
    assert outline["isCut"]
    assert len(outline["rows"]) == 200
    last = outline["rows"][-1]
    assert (last["seq"], last["kind"], last["preview"]) == (2002, "user", "turn 1999.")
    assert last["heads"] == ["main"]


def test_the_tokens_follow_the_session_that_is_shown(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(
        """
        s.usage = new core.UsageFollow(connection, feeds, (usage) => { s.tokens = usage?.tokens; changed(); });
        await s.usage.show(session_id);
        """,
        session_id=session,
    )
    before = js("return until(() => s.tokens)")
    say(environment, "many words " * 400)
    after = js("return until(() => s.tokens > before && s.tokens)", before=before)
    with python_client(environment) as client:
        assert client.usage(session).tokens == after
    js("await s.usage.show(undefined)")
    assert js("return [s.tokens ?? null, feeds.size]") == [None, 0]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (200_000, "200k"),
        (999_999, "1M"),
        (1_234_567, "1.2M"),
    ],
)
def test_numbers_of_tokens_are_short(drive: Drive, count: int, text: str) -> None:
    assert drive()("return core.shortNumber(count)", count=count) == text


def test_a_search_finds_and_a_later_question_gives_up_the_one_before(
    drive: Drive, session: str
) -> None:
    js = drive()
    answers = js(
        """
        const search = new core.Search(connection);
        const answers = [search.ask('nothing'), search.ask('  '), search.ask('clo')];
        return (await Promise.all(answers)).map((hits) => hits?.map(({session_id, snippet}) => [session_id, snippet]) ?? null);
        """
    )
    assert answers == [None, [], [[session, "The clock."]]]


def test_a_message_that_is_appended_again_is_stored_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    again = js(
        """
        const message = new core.OutgoingMessage(connection, {session_id, head: 'main'}, 'once');
        return [(await message.append()).duplicate, (await message.append()).duplicate];
        """,
        session_id=session,
    )
    assert again == [False, True]
    assert stored(environment)[2:] == ["once"]


def test_a_read_without_an_answer_in_time_says_what_to_do(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive(timeoutMs=300)
    js("await connection.client()")
    pid = said([SESSIOND, "status", "--json"], environment)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        read = "await (await connection.client()).get({session_id})"
        told = js(
            f"try {{ {read} }} catch (error) {{ return core.sentence(error) }}", session_id=session
        )
    finally:
        os.kill(pid, signal.SIGCONT)
    assert told == "no answer to session/get in time. See `sessiond status`, then try again."


def test_refusals_are_sentences(drive: Drive, session: str, environment: Mapping[str, str]) -> None:
    js = drive()
    append = """
        const message = new core.OutgoingMessage(connection, {session_id, head: 'main'}, 'x');
        try { await message.append() } catch (error) { return core.sentence(error) }
    """
    assert js(append, session_id="no-such-session") == "There is no such session any more."
    with python_client(environment) as client, client.lease(session):
        assert "Another client works on this head" in js(append, session_id=session)
