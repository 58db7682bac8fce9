"""Two windows and a client on one session, a daemon that is killed, one connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.test_stubs import kill_the_daemon, said
from tests.interop.vscode.acts import LOG, TEXTS, Drive, say, shown, stored
from tests.kit.line_proxy import line_proxy
from tests.kit.processes import children, unix_connections
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_two_windows_and_a_client_see_the_entries_of_each_other_at_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    windows = [drive(), drive()]
    for js in windows:
        js(LOG, session_id=session)
    for number, js in enumerate(windows):
        js(
            "await new core.OutgoingMessage(connection, {session_id}, text).append()",
            session_id=session,
            text=f"from window {number}",
        )
        for other in windows:
            assert shown(other, until=f"from window {number}")
    say(environment, "from Python")
    for js in windows:
        assert shown(js, until="from Python") == stored(environment)


def test_a_killed_daemon_costs_no_entry_and_doubles_none(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    expected = stored(environment)
    for life in range(3):
        js(
            """
            s.sent = Array.from({length: 20}, (_, turn) =>
                new core.OutgoingMessage(connection, {session_id}, `window ${life}-${turn}.`).append());
            """,
            session_id=session,
            life=life,
        )
        kill_the_daemon(environment)
        say(environment, f"after {life}.")
        js("await Promise.all(s.sent)")
        expected += [f"after {life}.", *(f"window {life}-{turn}." for turn in range(20))]
        texts = js(
            TEXTS + "return until(() => s.texts().length >= count && s.texts())",
            count=len(expected),
        )
        assert sorted(texts) == sorted(expected)
        assert texts == stored(environment)
    assert children(js.pid) == []


def test_a_window_has_one_connection_no_process_and_says_nothing_while_nothing_happens(
    drive: Drive, session: str, environment: Mapping[str, str], socket_path: Path
) -> None:
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    requests: list[bytes] = []

    def note(line: bytes) -> list[bytes]:
        requests.append(line)
        return [line]

    with line_proxy(socket_path, Path(daemon), requests=note):
        js = drive(socket=str(socket_path))
        js(LOG, session_id=session)
        js(
            """
            s.list = new core.SessionList(connection, () => undefined, changed);
            s.outline = new core.SessionOutline(connection, feeds, session_id, changed);
            s.usage = new core.UsageFollow(connection, feeds, (usage) => { s.tokens = usage?.tokens; changed(); });
            await s.list.refresh();
            await s.outline.read();
            await s.usage.show(session_id);
            await until(() => s.tokens);
            """,
            session_id=session,
        )
        assert js("return feeds.size") == 1
        assert unix_connections(js.pid) == 1
        assert children(js.pid) == []
        # What is asked comes of a timer, of the daemon's word, or of the person.
        js("await untilNoTimer()")
        requests.clear()
        js("await (await connection.client()).ping()")
        assert [json.loads(line)["method"] for line in requests] == ["server/ping"]


def test_the_first_use_starts_the_daemon_and_without_sessiond_the_person_is_told(
    drive: Drive, environment: Mapping[str, str], home: Path
) -> None:
    js = drive(command="/nowhere/sessiond", connectTimeoutMs=0)
    failed = "try { await connection.client() } catch (error) { return [core.isNoDaemon(error), core.sentence(error)] }"
    is_missing, told = js(failed)
    assert is_missing
    assert "install sessiond" in told
    js = drive(command=f"'{SESSIOND}'")
    made = js(
        "return (await (await connection.client()).create({cwd, persist: 'immediate'})).created",
        cwd=str(home),
    )
    assert made
    assert children(js.pid) == []
