"""Calls of the TypeScript client that a broken connection left open: sent again, or never."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.typescript_client.cutting import Cutting
from tests.kit.driver import Driver, JsError
from tests.kit.line_proxy import line_proxy
from tests.kit.patience import soon
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(120)]

SESSION = "cut-off-by-a-proxy"
APPEND = "return await c.append({session_id: s.session_id, message: {role: 'user', content: 'hi'}})"
FORK = "return await c.fork({session_id: s.session_id})"
COUNT = "return (await c.get({session_id: s.session_id})).session.entry_count"


@pytest.fixture
def proxy() -> Cutting:
    """Return the proxy in front of the daemon."""
    return Cutting()


@pytest.fixture
def js(
    drive: Callable[..., Driver], proxy: Cutting, server: Daemon, tmp_path: Path
) -> Iterator[Driver]:
    """Return a client behind the proxy, with a session of one entry."""
    server.connect().close()
    path = tmp_path / "proxy.sock"
    daemon = server.socket_path
    with line_proxy(path, daemon, requests=proxy.request, answers=proxy.answer):
        js = drive(socket=str(path))
        js(f"s.session_id = '{SESSION}'")
        js("await c.create({cwd: '/', session_id: s.session_id, persist: 'immediate'})")
        js(APPEND)
        proxy.seen.clear()
        yield js


def refusal(kind: str) -> dict[str, object]:
    return {"code": -32000, "message": kind, "data": {"kind": kind, "retryable": True}}


def test_an_append_is_sent_again_and_stored_once(js: Driver, proxy: Cutting) -> None:
    proxy.cuts.append("session/append")
    assert js(APPEND)["duplicate"]
    assert proxy.seen.count("session/append") == 2
    assert js(COUNT) == 2


def test_the_ids_of_a_caller_are_kept(js: Driver, proxy: Cutting) -> None:
    proxy.cuts.append("session/append")
    code = "{type: 'message', id: 'mine-0001', message: {role: 'user', content: 'hi'}}"
    answer = js(f"return await c.append({{session_id: s.session_id, entry: {code}}})")
    assert [entry["id"] for entry in answer["entries"]] == ["mine-0001"]


def test_a_merge_is_sent_again_under_a_key_of_its_own_and_stored_once(
    js: Driver, proxy: Cutting
) -> None:
    js("s.other = (await c.create({cwd: '/', persist: 'immediate'})).session.id")
    proxy.cuts.append("session/merge")
    merge = "{session_id: s.session_id, other_session_id: s.other, text: 'both'}"
    merged = js(f"return await c.merge({merge})")
    assert merged["seq"] == 4
    assert proxy.seen.count("session/merge") == 2
    assert js(COUNT) == 4


def test_what_may_not_be_done_twice_is_not_sent_again(js: Driver, proxy: Cutting) -> None:
    proxy.cuts.append("session/fork")
    with pytest.raises(JsError) as caught:
        js(FORK)
    assert (caught.value.name, caught.value.outcome_unknown) == ("ConnectionLost", True)
    assert "session/list shows whether it was done" in str(caught.value)
    assert js("return (await c.list({})).sessions.length") == 2
    assert proxy.seen.count("session/fork") == 1


def test_what_may_not_be_done_twice_waits_for_a_word_of_the_daemon(
    js: Driver, proxy: Cutting
) -> None:
    proxy.cuts.append("session/fork")
    with pytest.raises(JsError):
        js(FORK)
    js(FORK)
    assert proxy.seen == ["session/fork", "initialize", "server/ping", "session/fork"]


def test_a_question_is_asked_again(js: Driver, proxy: Cutting) -> None:
    proxy.cuts += ["session/get", "session/get"]
    assert js(COUNT) == 1
    assert proxy.seen.count("session/get") == 3


@pytest.mark.parametrize(
    ("kind", "method", "times"),
    [
        ("overloaded", "session/fork", 2),
        ("draining", "session/fork", 2),
        ("storage_error", "session/append", 2),
        ("storage_error", "session/fork", 1),
        ("entry_not_found", "session/append", 1),
    ],
)
def test_a_refusal_is_followed_by_another_try_where_that_is_safe(
    js: Driver, proxy: Cutting, kind: str, method: str, times: int
) -> None:
    code = FORK if method == "session/fork" else APPEND
    proxy.refusals[method] = refusal(kind)
    if times > 1:
        js(code)
    else:
        with pytest.raises(JsError) as caught:
            js(code)
        assert caught.value.kind == kind
    assert proxy.seen.count(method) == times


def test_a_call_that_is_given_up_is_cancelled_at_the_daemon(js: Driver, proxy: Cutting) -> None:
    js("s.lease = await c.lease({session_id: s.session_id})")
    asked = proxy.seen.count("session/acquire")
    js(
        "s.stop = new AbortController();"
        "s.waits = c.acquire({session_id: s.session_id, ttl_ms: 1000, wait_ms: 60000}, {signal: s.stop.signal});"
        "s.waits.catch(() => undefined);"
    )
    soon(lambda: proxy.seen.count("session/acquire") > asked)
    with pytest.raises(JsError, match="enough"):
        js("s.stop.abort(new Error('enough')); await s.waits;")
    js(COUNT)
    assert proxy.seen.count("$/cancelRequest") == 1


def test_a_lease_ends_with_its_connection(js: Driver, proxy: Cutting) -> None:
    js("s.lease = await c.lease({session_id: s.session_id, ttl_ms: 600000})")
    proxy.cuts.append("session/get")
    js(COUNT)
    assert js("return s.lease.signal.aborted")
    assert "session/renew" not in proxy.seen


def test_a_lease_that_was_waited_for_is_renewed_at_once(js: Driver, proxy: Cutting) -> None:
    js("s.lease = await c.lease({session_id: s.session_id, ttl_ms: 600000})")
    js(
        "const waits = c.lease({session_id: s.session_id, ttl_ms: 600000, wait_ms: 60000});"
        "await s.lease.release(); s.lease = await waits;"
    )
    # Only the daemon knew when the lease began.
    assert proxy.seen.count("session/renew") == 1


def test_a_question_that_is_never_answered_leaves_no_outcome_open(
    js: Driver, proxy: Cutting
) -> None:
    proxy.cuts += ["session/get"] * 100
    with pytest.raises(JsError) as caught:
        js(COUNT)
    assert (caught.value.name, caught.value.outcome_unknown) == ("ConnectionLost", False)
    assert "outcome" not in str(caught.value)
