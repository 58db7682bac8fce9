"""Ends of connections: the end of input, vanished clients, closings, bugs."""

from __future__ import annotations

import json
import logging

import anyio
import pytest

from sessiond.rpc.framing import frame_content_length, frame_ndjson
from tests.service.transport_rig import Daemon, connected, quiet, request

pytestmark = pytest.mark.both_loops


async def test_the_end_of_input_cancels_nothing() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, "later") + request(2))
        assert (await wire.message())["id"] == 2
        wire.end_input()
        await quiet()
        assert daemon.clients[0].closed_count == 0
        daemon.settle("stored")
        assert json.loads(await wire.rest())["result"] == {"text": "stored"}
        await quiet()
        assert daemon.clients[0].closed_count == 1


async def test_the_last_line_may_lack_its_newline() -> None:
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(request(1).rstrip())
        wire.end_input()
        assert json.loads(await wire.rest())["id"] == 1


@pytest.mark.parametrize(
    ("half", "answered"),
    [(request(1)[:-5], True), (frame_content_length(request(1))[:-5], False)],
)
async def test_half_a_frame_runs_nothing(half: bytes, *, answered: bool) -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(half)
        wire.end_input()
        received = await wire.rest()
        assert bool(received) is answered
        if answered:
            assert json.loads(received)["error"]["code"] == -32700
    assert daemon.echoed == []


async def test_a_task_of_the_connection_may_finish_after_the_end_of_input() -> None:
    daemon = Daemon()
    go_on = anyio.Event()

    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        connection = daemon.clients[0].connection

        async def replay() -> None:
            await go_on.wait()
            assert connection.offer(frame_ndjson(b'{"event":1}'))
            connection.flush()

        connection.start(replay)
        wire.end_input()
        await quiet()
        assert daemon.clients[0].closed_count == 0
        go_on.set()
        assert await wire.rest() == b'{"event":1}\n'


async def test_a_client_that_vanishes_is_told_to_the_service_once_and_answers_go_nowhere() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1, "later"))
        await quiet()
        wire.close()
        await quiet()
        daemon.settle()
        await quiet()
        client = daemon.clients[0]
        assert client.closed_count == 1
        # Whatever the service still has to say is swallowed.
        client.connection.put(b"x\n")
        assert client.connection.offer(b"x\n")
        client.connection.flush()
        await client.connection.wait_room()
        client.connection.start(anyio.sleep_forever)
    assert daemon.logged == []


async def test_a_socket_that_breaks_while_sending_ends_the_connection() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        wire.close()
        connection = daemon.clients[0].connection
        connection.put(b"x\n")
        connection.flush()
        await quiet()
        assert daemon.clients[0].closed_count == 1


async def test_close_answers_what_was_asked_and_runs_nothing_more() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(
            request(1, "later", text="a") + request(2, "exit") + request(3, text="never")
        )
        assert (await wire.message())["id"] == 2
        daemon.settle()
        assert json.loads(await wire.rest())["id"] == 1
    assert daemon.echoed == []


async def test_close_from_outside_wakes_a_connection_that_waits_for_input() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
        daemon.clients[0].connection.close()
        assert await wire.rest() == b""


async def test_a_bug_in_a_task_ends_its_connection_only() -> None:
    daemon = Daemon()
    async with connected(daemon) as (wire, tasks):
        await wire.send_bytes(request(1, "start"))
        await wire.rest()
        ((_, name, error),) = daemon.logged
        assert "fail" in name
        assert isinstance(error, RuntimeError)
        assert daemon.clients[0].closed_count == 1
        assert not tasks.cancel_scope.cancel_called


async def test_a_bug_at_the_end_of_a_connection_reaches_nobody_else() -> None:
    daemon = Daemon()
    daemon.closed_fails = True
    async with connected(daemon) as (wire, _):
        await wire.send_bytes(request(1))
        await wire.message()
    assert [what[1] for what in daemon.logged] == ["connection"]


async def test_log_lines_hold_no_content(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with connected(Daemon()) as (wire, _):
        await wire.send_bytes(request(1, text="private") + b'{"private\n' + b"\xff private\n")
        await wire.messages(3)
    ours = [record for record in caplog.records if record.name.startswith("sessiond")]
    assert len(ours) == 2
    assert all("private" not in str(vars(record)) for record in ours)
