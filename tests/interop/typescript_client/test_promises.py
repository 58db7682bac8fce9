"""The promises of the TypeScript client's README, one by one, against a real daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiond_client import BlockingClient, connect_blocking
from sessiond_client.place import UnsafeFolder, socket_place
from tests.kit.driver import Driver, JsError
from tests.kit.large_context import put_large_context, require_large_context
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

SESSION = "of-a-node-client"
Drive = Callable[..., Driver]
# The offer comes back on a connection of its own, at its own time.
COMPACT = """async () => {
    for (;;) {
        try {
            return await c.compact({session_id: s.session_id});
        } catch (error) {
            if (error.kind !== 'summarizer_unavailable') throw error;
            await new Promise((fulfil) => setTimeout(fulfil, 20));
        }
    }
}"""


@pytest.fixture
def js(drive: Drive, tmp_path: Path) -> Driver:
    js = drive(clientId="node")
    js(
        "await c.create({cwd, session_id, persist: 'immediate'})",
        cwd=str(tmp_path),
        session_id=SESSION,
    )
    js("s.session_id = session_id; s.message = {role: 'user', content: 'hi'};", session_id=SESSION)
    return js


def killed(server: Daemon) -> None:
    server.end(signal.SIGKILL)
    server.start()


def other(server: Daemon) -> BlockingClient:
    return connect_blocking(
        server.socket_path, timeout=PATIENCE_SECONDS, connect_timeout=PATIENCE_SECONDS
    )


# -- errors and values ------------------------------------------------------------------------


def test_a_refusal_is_an_error_with_its_kind_and_data(js: Driver) -> None:
    with pytest.raises(JsError) as caught:
        js("await c.get({session_id: 'no-such-session'})")
    assert (caught.value.name, caught.value.kind) == ("RpcError", "session_not_found")
    assert js(
        "try { await c.append({...s, expected: {leaf_id: 'none'}, session_id: s.session_id}); }"
        "catch (error) { return error.is('invalid_params') || error.is('precondition_failed'); }"
    )


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("NaN", "n: NaN is no JSON"),
        ("1n", "n: a bigint is no JSON"),
        ("[undefined]", "[0]: undefined is no JSON"),
        ("() => 1", "n: a function is no JSON"),
    ],
)
def test_a_value_that_json_cannot_carry_is_refused_before_anything_is_sent(
    js: Driver, value: str, told: str
) -> None:
    code = f"await c.append({{session_id: s.session_id, message: {{role: 'user', n: {value}}}}})"
    with pytest.raises(JsError) as caught:
        js(code)
    assert (caught.value.name, caught.value.message) == ("TypeError", told)
    with pytest.raises(JsError, match="circular"):
        js(
            "const n = {}; n.n = n; await c.append({session_id: s.session_id, message: {role: 'user', n}})"
        )
    assert js("return (await c.get({session_id: s.session_id})).session.entry_count") == 0


def test_a_request_over_the_limit_is_refused_here(js: Driver) -> None:
    with pytest.raises(JsError) as caught:
        js(
            "await c.append({session_id: s.session_id, message: {role: 'user', content: 'x'.repeat(2**25)}})"
        )
    assert caught.value.kind == "too_large"


def test_an_aborted_call_is_rejected_with_its_reason(js: Driver) -> None:
    js("s.lease = await c.lease({session_id: s.session_id})")
    with pytest.raises(JsError, match="enough"):
        js(
            "const stop = new AbortController();"
            "const waits = c.acquire({session_id: s.session_id, ttl_ms: 1000, wait_ms: 60000}, {signal: stop.signal});"
            "stop.abort(new Error('enough')); await waits;"
        )


# -- leases, presence, offers -----------------------------------------------------------------


@pytest.mark.real_clock
def test_a_lease_renews_itself_and_is_lost_with_the_daemon(js: Driver, server: Daemon) -> None:
    js("s.lease = await c.lease({session_id: s.session_id, ttl_ms: 3000})")
    js("await new Promise((fulfil) => setTimeout(fulfil, 5000))")
    js("await c.append({session_id: s.session_id, message: s.message, lease_id: s.lease.id})")
    epoch = js(
        "s.lost = new Promise((f) => s.lease.signal.addEventListener('abort', f)); return s.lease.epoch"
    )
    killed(server)
    js("await s.lost")
    with pytest.raises(JsError) as caught:
        js("s.lease.id")
    assert caught.value.name == "LeaseLost"
    assert js("s.lease = await c.lease({session_id: s.session_id}); return s.lease.epoch") > epoch
    js("await s.lease.release()")
    with pytest.raises(JsError, match="released"):
        js("s.lease.id")
    with other(server) as client, client.lease(SESSION), pytest.raises(JsError) as caught:
        js("await c.lease({session_id: s.session_id})")
    assert caught.value.kind == "lease_held"


def test_presence_is_said_again_on_the_next_connection(js: Driver, server: Daemon) -> None:
    js("await c.presence({session_id: s.session_id, state: 'thinking'})")
    killed(server)
    with other(server) as client, client.subscribe(SESSION, signals=True) as events:
        while not [one for one in client.presence(SESSION) if one.state == "thinking"]:
            next(events)
    js("await c.presence({session_id: s.session_id, state: null})")


def test_presence_that_ended_with_the_daemon_is_told(js: Driver, server: Daemon) -> None:
    js("s.events = await c.subscribe({session_id: s.session_id, signals: true})")
    with other(server) as client:
        client.presence(SESSION, state="here")
        code = "return (await s.events.next()).value.params.clients.map((one) => one.state)"
        assert js(code) == ["here"]
        server.end(signal.SIGKILL)
    server.start()
    assert js(code) == []


def test_an_offer_is_made_again_and_a_withdrawn_request_is_told(js: Driver, server: Daemon) -> None:
    js(
        "s.offer = await c.offer({summarize: ['compaction']}); s.asked = async () => (await s.offer.next()).value"
    )
    small = {"keep_recent_tokens": 1, "reserve_tokens": 1, "context_window": 10}
    js("await c.update({session_id: s.session_id, compaction})", compaction=small)
    for number in range(2):
        js(
            "for (const n of [1, 2, 3]) await c.append({session_id: s.session_id, message: s.message})"
        )
        js(f"s.done = ({COMPACT})()")
        assert js("s.one = await s.asked(); return [s.one.method, s.one.signal.aborted]") == [
            "client/summarize",
            False,
        ]
        js("s.one.answer(text)", text=f"Summary {number}.")
        js("await s.done")
        if number == 0:
            killed(server)
            js("await c.ping()")
    path = js("return (await c.path({session_id: s.session_id})).entries")
    texts = [row["entry"].get("summary") for row in path]
    assert [text for text in texts if text] == ["Summary 0.", "Summary 1."]
    js("for (const n of [1, 2, 3]) await c.append({session_id: s.session_id, message: s.message})")
    js(
        "s.stop = new AbortController();"
        "s.done = c.compact({session_id: s.session_id}, {signal: s.stop.signal}).catch((error) => error.message)"
    )
    js(
        "s.one = await s.asked(); s.gone = new Promise((f) => s.one.signal.addEventListener('abort', f))"
    )
    js("s.stop.abort(new Error('no longer')); await s.gone")
    assert js("s.one.answer('too late'); return await s.done") == "no longer"


def test_what_a_daemon_asked_is_withdrawn_with_the_daemon(js: Driver, server: Daemon) -> None:
    js(
        "s.offer = await c.offer({summarize: ['compaction']});"
        "s.asked = async () => (await s.offer.next()).value"
    )
    small = {"keep_recent_tokens": 1, "reserve_tokens": 1, "context_window": 10}
    js("await c.update({session_id: s.session_id, compaction})", compaction=small)
    js("for (const n of [1, 2, 3]) await c.append({session_id: s.session_id, message: s.message})")
    js("s.done = c.compact({session_id: s.session_id}).catch((error) => error.name)")
    js(
        "s.one = await s.asked(); s.gone = new Promise((f) => s.one.signal.addEventListener('abort', f))"
    )
    server.end(signal.SIGKILL)
    js("await s.gone")
    assert js("return await s.done") == "ConnectionLost"
    server.start()
    server.connect().close()


# -- subscriptions ----------------------------------------------------------------------------


def test_a_slow_consumer_holds_little_and_misses_nothing(js: Driver, server: Daemon) -> None:
    count, size = 1000, 64 * 1024
    js("s.events = await c.subscribe({session_id: s.session_id, after: 0})")
    js("await c.append({session_id: s.session_id, message: s.message})")
    js("for (let seq; seq !== 1; ) seq = (await s.events.next()).value.params.seq")
    before = js("globalThis.gc?.(); return process.memoryUsage().rss")
    with other(server) as client:
        for _ in range(count):
            client.append(SESSION, message={"role": "user", "content": "x" * size}, durability="os")
    grown = js("return process.memoryUsage().rss") - before
    assert grown < count * size / 4
    seqs = js(
        "const seqs = []; for await (const event of s.events) {"
        "if (event.method === 'session/event') seqs.push(event.params.seq);"
        "if (seqs.length === count) return seqs; }",
        count=count,
    )
    assert seqs == list(range(2, count + 2))


def test_a_cursor_goes_on_in_another_process_and_a_flush_comes_behind_all(
    js: Driver, drive: Drive
) -> None:
    js("for (const n of [1, 2, 3]) await c.append({session_id: s.session_id, message: s.message})")
    cursor = js(
        "const events = await c.subscribe({session_id: s.session_id, after: 0});"
        "await events.next(); await events.next(); await events.return(); return events.cursor"
    )
    assert cursor["seq"] == 2
    again = drive()
    seen = again(
        "const events = await c.subscribe({session_id, after}); events.requestFlush(); const seen = [];"
        "for await (const {method, params} of events) {"
        "seen.push([method, params.seq]); if (method === 'session/flushed') return seen; }",
        session_id=SESSION,
        after=cursor,
    )
    assert [one for one in seen if one[0] != "session/synced"] == [
        ["session/event", 3],
        ["session/flushed", 3],
    ]


def test_a_file_that_was_replaced_is_told_and_comes_again(js: Driver, server: Daemon) -> None:
    js("for (const n of [1, 2]) await c.append({session_id: s.session_id, message: s.message})")
    js("s.events = await c.subscribe({session_id: s.session_id, after: 0})")
    assert js(
        "return [(await s.events.next()).value.params.seq, (await s.events.next()).value.params.seq]"
    ) == [1, 2]
    (path,) = server.files(SESSION)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = path.with_name("changed")
    changed.write_bytes(lines[0] + lines[2].replace(b'"hi"', b'"ho"'))
    changed.rename(path)
    seen = js(
        "const seen = []; for await (const {method, params} of s.events) { seen.push([method, params.seq ?? null]);"
        "if (method === 'session/event') return seen; }"
    )
    told = [one for one in seen if one[0] in {"session/replaced", "session/event"}]
    assert told == [["session/replaced", None], ["session/event", 1]]


def test_hints_tell_of_lists_and_of_the_state_store(js: Driver, tmp_path: Path) -> None:
    js("s.catalog = await c.subscribeCatalog(); s.state = await c.subscribeState('mine')")
    js("await c.stateSet({namespace: 'mine', key: 'k', value: 1})")
    assert js("return (await s.state.next()).value.params.key") == "k"
    js(
        "await c.create({cwd, session_id: 'another-session', persist: 'immediate'})",
        cwd=str(tmp_path),
    )
    assert (
        js(
            "for await (const hint of s.catalog) if (hint.params.session_id === 'another-session') return hint.method"
        )
        == "catalog/changed"
    )


# -- the daemon -------------------------------------------------------------------------------


def run(node: Path, code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [str(node), "--input-type=module", "--eval", code]
    return subprocess.run(
        words,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_client_starts_the_daemon_of_its_home(any_node: Path, library: Path, home: Path) -> None:
    code = (
        f"const {{ connect }} = await import({json.dumps(str(library))});"
        f"const client = await connect({{ home: {json.dumps(str(home / 'new'))} }});"
        "console.log((await client.info()).pid); await client.stop();"
    )
    done = run(any_node, code, {"SESSIOND_COMMAND": SESSIOND})
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("/bin/sh -c 'echo first; echo the last word >&2; exit 7' --", "status 7): the last word"),
        ("/no/such/program", "there is no sessiond to start"),
    ],
)
def test_a_daemon_that_cannot_be_started_is_a_clear_error(
    node20: Path, library: Path, home: Path, command: str, told: str
) -> None:
    code = (
        f"const {{ connect }} = await import({json.dumps(str(library))});"
        f"await connect({{ home: {json.dumps(str(home / 'new'))} }}).catch((error) => console.log(error.message));"
    )
    done = run(node20, code, {"SESSIOND_COMMAND": command})
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


def test_a_daemon_of_a_socket_is_never_started(node20: Path, library: Path, tmp_path: Path) -> None:
    code = (
        f"const {{ connect }} = await import({json.dumps(str(library))});"
        f"await connect({{ socket: {json.dumps(str(tmp_path / 'none.sock'))} }})"
        ".catch((error) => console.log(error.name));"
    )
    started = tmp_path / "started"
    done = run(node20, code, {"SESSIOND_COMMAND": f"/bin/sh -c '>{started}; exit 7' --"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "ConnectionLost\n", "")
    assert not started.exists()


def test_the_socket_is_looked_for_where_the_daemon_listens(
    node20: Path, library: Path, tmp_path: Path
) -> None:
    homes: list[dict[str, Any]] = [
        {},
        {"profile": "work"},
        {"home": "/data/of mine"},
        {"home": "/data/" + "long" * 40, "profile": "p"},
        {"socket": "/run/a.sock"},
    ]
    environments: list[dict[str, str]] = [
        {"TMPDIR": str(tmp_path)},
        {"XDG_RUNTIME_DIR": str(tmp_path), "SESSIOND_PROFILE": "other"},
        {"XDG_RUNTIME_DIR": "relative", "TMPDIR": str(tmp_path), "SESSIOND_HOME": "/h"},
        {"SESSIOND_SOCKET": "/run/named.sock", "TMPDIR": str(tmp_path)},
    ]
    cases = [[environment, place] for environment in environments for place in homes]
    code = (
        f"const {{ socketPath }} = await import({json.dumps(str(library.with_name('place.js')))});"
        f"console.log(JSON.stringify({json.dumps(cases)}.map(([e, p]) => socketPath(e, p))));"
    )
    done = run(node20, code, {})
    wanted = [str(socket_place(environment, **place)) for environment, place in cases]
    assert (json.loads(done.stdout), done.stderr) == (wanted, "")
    unsafe = tmp_path / f"sessiond-{os.getuid()}"
    unsafe.mkdir()
    unsafe.chmod(0o777)
    with pytest.raises(UnsafeFolder):
        socket_place(environments[0])
    assert "open to other users" in run(node20, code, {}).stderr


def test_a_call_without_a_limit_waits_as_long_as_the_daemon_answers(
    js: Driver, server: Daemon
) -> None:
    """Let the times of silence be over when the test says so."""
    js(
        "const real = setTimeout; globalThis.setTimeout = (act, ms) =>"
        " { if (ms !== 15_000) return real(act, ms); s.due = act; return real(() => undefined, 1e9).unref(); }"
    )
    os.kill(server.pid, signal.SIGSTOP)
    try:
        js(
            "s.end = c.label({session_id: 'none', entry_id: 'none', label: 'x'}, {timeoutMs: Infinity})"
            ".catch((error) => error)"
        )
        js("s.due(); s.second = s.due")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert js("return (await s.end).name") == "RpcError"
    os.kill(server.pid, signal.SIGSTOP)
    try:
        js(
            "s.end = c.label({session_id: 'none', entry_id: 'none', label: 'x'}, {timeoutMs: Infinity})"
            ".catch((error) => error)"
        )
        js("s.due(); s.due()")
        told = js(
            "const {name, outcomeUnknown, message} = await s.end; return [name, outcomeUnknown, message]"
        )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert told[:2] == ["Timeout", True]
    assert "session/labels shows whether it was done" in told[2]


def test_a_call_on_its_way_when_the_client_closes_has_an_unknown_outcome(
    js: Driver, server: Daemon
) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        told = js(
            "const ends = ['label', 'get'].map((name) => c[name]({session_id: 'none', entry_id: 'none', label: 'x'})"
            ".catch((error) => error)); c.disconnect();"
            " return (await Promise.all(ends)).map(({name, outcomeUnknown}) => [name, outcomeUnknown])"
        )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert told == [["ClientClosed", True], ["ClientClosed", False]]


def test_a_context_that_is_larger_than_an_answer_comes_whole(js: Driver, server: Daemon) -> None:
    with other(server) as client:
        put_large_context(client, "of-many-pages")
    found = js(
        """
        const whole = await c.buildContext({session_id: "of-many-pages"});
        return [whole.messages.map((m) => m.content[0]), whole.messages.map((m) => m.content.length),
                whole.sources.length, "next_cursor" in whole];
        """
    )
    require_large_context(*found[:3])
    assert found[3] is False
