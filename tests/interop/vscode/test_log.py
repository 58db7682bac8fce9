"""The document of a session: what is stored, what comes, pages, other files."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.interop.test_stubs import kill_the_daemon, python_client
from tests.interop.vscode.acts import LOG, SESSION, Drive, say, shown, stored, write_many
from tests.kit.driver import JsError

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_a_log_reads_what_is_stored_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    text = js("return s.log.snapshot().text")
    assert re.fullmatch(
        r"── user ── #1 \d\d:\d\d\nWhy is it late\?\n\n── user ── #2 \d\d:\d\d\nThe clock\.\n", text
    )
    say(environment, "one\r\ntwo\u2028three\rfour")
    assert shown(js, until="four") == [*stored(environment)[:2], "one", "two", "three", "four"]
    js("s.log.stop()")
    assert js("return feeds.size") == 0


def test_entries_that_are_stored_while_a_log_is_read_come_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    for number in range(4):
        js(
            """
            const client = await connection.client();
            const log = new core.SessionLog(connection, feeds, session_id, changed);
            s.log = log;
            const start = log.start();
            for (let turn = 0; turn < 30; turn += 1) {
                const message = {role: 'user', content: `${number}-${turn}.`};
                await client.append({session_id, message, durability: 'os'});
            }
            await start;
            """,
            session_id=session,
            number=number,
        )
        assert shown(js, until=f"{number}-29.") == stored(environment)
        js("s.log.stop()")


def test_a_long_session_begins_with_the_newest_entries(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        write_many(client, 1000)
    js = drive()
    js(LOG, session_id=session)
    texts = shown(js, until="turn 999.")
    assert texts == [f"turn {number}." for number in range(600, 1000)]
    assert js("return s.log.snapshot().text").startswith("… 602 earlier entries\n\n── user ── #603")
    first = js("return s.log.snapshot().firstSeq")
    page = js(
        """
        const page = await core.readPage(connection, session_id, before);
        return {size: page.size, first: page.firstSeq, text: page.text, line: page.lineOf(203), at: page.entryAt(3)};
        """,
        session_id=session,
        before=first,
    )
    assert (page["size"], page["first"], page["at"]["seq"]) == (400, 203, 203)
    assert page["text"].split("\n")[page["line"]].startswith("── user ── #203")
    assert "\nturn 599.\n" in page["text"]
    # What is appended pushes old entries out, a hundred at a time.
    with python_client(environment) as client:
        write_many(client, 120)
    assert len(shown(js, until="turn 119.")) in range(400, 500)


def test_a_document_is_far_smaller_than_the_session(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    """Write 53 MB, in large messages and in middling ones: VS Code hands no document over 50 MB to extensions."""
    with python_client(environment) as client:
        for text in ["x" * 1_000_000] * 50 + ["x" * 60_000] * 100:
            client.append(SESSION, message={"role": "user", "content": text})
    js = drive()
    js(LOG, session_id=session)
    seen = js(
        """
        let page = s.log.snapshot();
        const pages = [];
        for (;;) {
            pages.push([page.text.length, page.size]);
            if (page.firstSeq === 1) return pages;
            s.page = page = await core.readPage(connection, session_id, page.firstSeq);
        }
        """,
        session_id=session,
    )
    assert sum(size for _, size in seen) == 2 + 50 + 100
    assert max(length for length, _ in seen) < 4_100_000
    assert js("return s.page.text").count("… 934464 characters more\n") > 1


def test_a_replaced_file_replaces_what_a_log_shows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    with python_client(environment) as client:
        path = client.get(session).path
    assert path is not None
    kill_the_daemon(environment)
    # The window comes back when the other file has as many lines as the one that the window knew.
    os.kill(js.pid, signal.SIGSTOP)
    lines = Path(path).read_bytes().splitlines(keepends=True)
    Path(path).write_bytes(b"".join(lines[:2]))
    say(environment, "Another end.")
    os.kill(js.pid, signal.SIGCONT)
    assert shown(js, until="Another end.") == ["Why is it late?", "Another end."]


def test_a_deleted_session_is_told_in_its_log(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    with python_client(environment) as client:
        client.delete(session)
    text = js(
        "return until(() => { const {text} = s.log.snapshot(); return /no more/.test(text) && text })"
    )
    assert text.startswith("This session is followed no more: session_not_found")
    assert "The clock." in text
    assert js("return feeds.size") == 0
    with pytest.raises(JsError, match="session_not_found"):
        js(LOG, session_id=session)


def test_every_kind_of_entry_has_a_heading_and_a_text(drive: Drive) -> None:
    entries: list[tuple[dict[str, Any], list[str]]] = [
        (
            {"type": "message", "message": {"role": "a\nb", "content": "x"}},
            ["── a b ── #1", "x", ""],
        ),
        (
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm"},
                        {"type": "text", "text": "yes"},
                        {"type": "toolCall", "name": "run", "arguments": {"a": 1}},
                        {"type": "image"},
                        "bare",
                        None,
                    ],
                },
            },
            [
                "── assistant ── #1",
                "[thinking] hm",
                "yes",
                '[run] {"a":1}',
                "[image]",
                "bare",
                "",
                "",
            ],
        ),
        ({"type": "compaction", "summary": "short"}, ["── compaction ── #1", "short", ""]),
        ({"type": "label", "label": None}, ["── label ── #1", ""]),
        ({"type": "from.the.future", "x": 1}, ["── from.the.future ── #1", ""]),
        ({"type": "message", "message": None}, ["── message ── #1", ""]),
    ]
    js = drive()
    for entry, lines in entries:
        assert js("return core.block(1, entry, 'main').lines", entry={"id": "e1", **entry}) == lines
    assert (
        js("return core.block(7, {type: 'leaf', id: 'e'}, 'side').lines[0]")
        == "── leaf ── #7 [side]"
    )
