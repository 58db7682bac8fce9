"""Follows of the TypeScript client: subscriptions over the connection of its calls."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond_client import BlockingClient, connect_blocking
from tests.kit.driver import Driver, JsError
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

SESSION = "followed-in-node"
# Follow the session; note the text of each message, and the name of each other notification.
FOLLOW = """
    s.seen = [];
    s.wanted = () => undefined;
    const note = (what) => { s.seen.push(what); s.wanted(); };
    s.until = async (count) => {
        while (s.seen.length < count) await new Promise((fulfil) => (s.wanted = fulfil));
        return s.seen;
    };
    s.follow = c.follow({session_id, after: 0}, {
        onEvent: (event) => {
            const text = event.params.entry?.message?.content;
            if (text !== undefined || event.method !== 'session/synced') note(text ?? event.method);
        },
        onEnd: (error) => note(error.kind ?? error.name),
    });
    await s.follow.started;
"""


def other(server: Daemon) -> BlockingClient:
    return connect_blocking(
        server.socket_path, timeout=PATIENCE_SECONDS, connect_timeout=PATIENCE_SECONDS
    )


@pytest.fixture
def js(drive: Callable[..., Driver], server: Daemon, tmp_path: Path) -> Driver:
    """Return a driver that follows a session with one message."""
    js = drive()
    with other(server) as client:
        client.create(str(tmp_path), session_id=SESSION, persist="immediate")
        say(client, "stored before")
    js(FOLLOW, session_id=SESSION)
    return js


def say(client: BlockingClient, text: str) -> None:
    client.append(SESSION, message={"role": "user", "content": text})


def test_calls_and_follows_share_one_connection_over_kills(js: Driver, server: Daemon) -> None:
    js("s.hints = []; s.catalog = c.followCatalog((hint) => s.hints.push(hint.params.change));")
    js("await s.catalog.started")
    expected = ["stored before"]
    for life in range(3):
        js(
            "s.sent = c.append({session_id, message: {role: 'user', content}})",
            session_id=SESSION,
            content=f"own {life}",
        )
        server.end(signal.SIGKILL)
        server.start()
        with other(server) as client:
            say(client, f"foreign {life}")
        js("await s.sent")
        expected += [f"own {life}", f"foreign {life}"]
        assert sorted(js("return s.until(count)", count=len(expected))) == sorted(expected)
    with other(server) as client:
        assert client.call("server/stats")["clients"] == 2
        stored = [row.entry["message"]["content"] for row in client.entries(SESSION).entries]
    assert js("return s.seen") == stored


def test_a_session_is_followed_once_and_again_after_a_stop(js: Driver, server: Daemon) -> None:
    with pytest.raises(JsError, match="is followed already"):
        js("c.follow({session_id}, {onEvent() {}})", session_id=SESSION)
    js("s.follow.stop(); await c.heads({session_id})", session_id=SESSION)
    with other(server) as client:
        assert client.call("server/stats")["sessions"][SESSION]["hub"]["subscribers"] == 0
        say(client, "while nobody followed")
    js(FOLLOW, session_id=SESSION)
    assert js("return s.until(2)") == ["stored before", "while nobody followed"]


def test_a_follow_of_a_deleted_session_ends(js: Driver, server: Daemon) -> None:
    assert js("return s.until(1)") == ["stored before"]
    with other(server) as client:
        client.delete(SESSION)
    assert js("return s.until(3)") == ["stored before", "session/closed", "session_not_found"]
    with pytest.raises(JsError, match="session_not_found"):
        js("await c.follow({session_id}, {onEvent() {}}).started", session_id=SESSION)
