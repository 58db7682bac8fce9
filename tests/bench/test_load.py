"""The load generator against the raw server: counts, never times."""

from __future__ import annotations

import select
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.harness import load
from tests.bench.harness.appends import EIGHT_CLIENTS, IN_FLIGHT, ONE_BY_ONE, Shape, appends
from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.link import Link, require_no_error
from tests.bench.harness.load import _latencies, pipelined, watched
from tests.bench.harness.processes import Program, listening
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.servers import RawServer, raw_server
from tests.bench.harness.workload import append_frames, messages, native_header, native_line


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawServer]:
    with raw_server(tmp_path_factory.mktemp("raw"), None) as raw:
        yield raw


@pytest.mark.parametrize("shape", [ONE_BY_ONE, IN_FLIGHT, EIGHT_CLIENTS])
def test_every_request_is_answered_and_counted_in_every_shape(
    server: RawServer, shape: Shape
) -> None:
    frames = append_frames(messages("mix", 400))
    sample = appends(server, shape, frames, persist="never")
    assert sample["rate"] > 0
    assert sample["p99_us"] >= sample["p50_us"] > 0


def test_each_request_has_a_latency(server: RawServer) -> None:
    with server.connect() as link:
        session = server.create(link, "never")
        frames = append_frames(messages("mix", 500)).of_session(session.id)
        timing = pipelined(link, frames, 64)
    assert timing.requests == len(timing.latencies_us) == 500


def test_latencies_run_from_the_send_to_the_receipt_that_held_the_answer() -> None:
    # Two sent at 0, the third at 10 µs; the first answer came at 10, the others at 30.
    found = _latencies([(2, 0), (3, 10_000)], [(1, 10_000), (3, 30_000)])
    assert found == [10.0, 30.0, 20.0]


def test_a_watched_load_ends_when_every_event_was_seen(server: RawServer) -> None:
    with server.connect() as link, server.connect() as watcher:
        session = server.create(link, "never")
        watcher.ask("session/subscribe", {"session_id": session.id}, dict)
        frames = append_frames(messages("mix", 300)).of_session(session.id)
        assert watched(link, watcher, frames, 64).requests == 300


def test_a_watched_load_takes_events_that_it_finds_after_the_answers(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = load._ready

    with server.connect() as link, server.connect() as watcher:

        def answers_first(poll: select.poll) -> list[tuple[int, int]]:
            found = ready(poll)
            own = [item for item in found if item[0] == link.socket.fileno()]
            return own or found

        monkeypatch.setattr(load, "_ready", answers_first)
        session = server.create(link, "never")
        watcher.ask("session/subscribe", {"session_id": session.id}, dict)
        frames = append_frames(messages("mix", 20)).of_session(session.id)
        watched(link, watcher, frames, 1)
        with pytest.raises(BlockingIOError):
            watcher.socket.recv(1, socket.MSG_DONTWAIT)


def test_lost_appends_are_no_rate(server: RawServer) -> None:
    with server.connect() as link:
        session = server.create(link, "never")
        with pytest.raises(BenchError, match="0 of 7"):
            server.require(link, session, 7)


def test_an_error_for_an_answer_is_no_rate() -> None:
    chunk = b'{"jsonrpc":"2.0","id":3,"error":{"code":-32001,"message":"no"}}\n'
    with pytest.raises(BenchError, match="-32001"):
        require_no_error(chunk)


def test_a_message_that_speaks_of_errors_is_fine() -> None:
    require_no_error(b'{"jsonrpc":"2.0","id":3,"result":{"leaf_id":"a","text":"error:{"}}\n')


def test_a_control_call_passes_over_notifications(server: RawServer) -> None:
    with server.connect() as link:
        session = server.create(link, "never")
        link.ask("session/subscribe", {"session_id": session.id}, dict)
        frames = append_frames(messages("300 B", 1)).of_session(session.id)
        link.socket.sendall(frames.part(0, 1))
        assert link.ask("raw/count", {"session_id": session.id}, int) == 1


def test_the_file_is_read_back_and_half_a_line_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [native_line(index, body) for index, body in enumerate(messages("300 B", 5))]
    path.write_bytes(native_header("bench-0000000001") + b"".join(lines))
    assert require_in_file(path, 5) == path.stat().st_size
    with pytest.raises(BenchError, match="6 entries were acknowledged, 5"):
        require_in_file(path, 6)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BenchError, match="half a line"):
        require_in_file(path, 5)


def test_only_entries_of_the_wanted_type_count(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [native_line(index, body) for index, body in enumerate(messages("300 B", 3))]
    lines[1] = lines[1].replace(b'"message"', b'"custom"', 1)
    path.write_bytes(b"".join(lines))
    require_in_file(path, 2)
    require_in_file(path, 1, kind="custom")
    with pytest.raises(BenchError, match="2 entries were acknowledged, 1"):
        require_in_file(path, 2, kind="custom")


def test_an_entry_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(2 * native_line(0, messages("300 B", 1)[0]))
    with pytest.raises(BenchError, match="1 are in the file"):
        require_in_file(path, 2)


def test_a_server_that_does_not_start_is_missing_with_its_last_word(
    tmp_path: Path, socket_path: Path
) -> None:
    words = [sys.executable, "-c", "raise SystemExit('no disk')"]
    program = Program(name="broken", command=words, log=tmp_path / "log", core=None)
    with (
        pytest.raises(Missing, match="broken: it does not start: no disk"),
        listening(program, socket_path),
    ):
        pass


def test_a_server_that_hangs_up_is_no_rate(server: RawServer) -> None:
    frames = append_frames(messages("300 B", 3)).of_session("bench-9999999999")
    with server.connect() as link, pytest.raises(BenchError, match="hung up"):
        # The raw server knows no such session, and ends the connection.
        pipelined(link, frames, 1)


def test_links_are_connections_of_their_own(server: RawServer) -> None:
    links = [server.connect() for _ in range(3)]
    assert len({link.socket.fileno() for link in links}) == 3
    assert all(isinstance(link, Link) for link in links)
    for link in links:
        link.close()
