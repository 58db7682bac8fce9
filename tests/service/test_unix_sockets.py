"""The Unix socket: who may connect, whose file it is, how many are admitted."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup

from sessiond.limits import DEFAULT_BOUNDS, REFUSALS_LOGGED_SECONDS, RETRY_AFTER_MS, Bounds
from sessiond.system import SYSTEM
from sessiond.system.unix import UNIX
from sessiond.testing.wire import RawWire
from sessiond.transports import listening as listening_sockets
from sessiond.transports import unix
from sessiond.transports.admission import Admission
from sessiond.transports.listening import CannotListen, Listening, listen, listen_on_inherited
from sessiond.transports.unix import serve_unix
from tests.kit.clock import let_pass
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, eventually
from tests.service.transport_rig import Daemon, quiet, request

pytestmark = [pytest.mark.both_loops, pytest.mark.platform]

LOOK_SECONDS = 0.001


@asynccontextmanager
async def listening(
    daemon: Daemon, path: Path, bounds: Bounds = DEFAULT_BOUNDS
) -> AsyncGenerator[TaskGroup]:
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            admission = Admission(daemon.byte_budget, lambda: bounds)
            await tasks.start(serve_unix, partial(listen, path), daemon.serve, admission)
            yield tasks
            tasks.cancel_scope.cancel()


async def serve_on(path: Path) -> None:
    daemon = Daemon()
    await serve_unix(partial(listen, path), daemon.serve, Admission(daemon.byte_budget))


async def connect(path: Path) -> RawWire:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(0)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return RawWire(sock)


async def test_clients_connect_and_are_served_over_a_unix_socket(socket_path: Path) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path):
        first, second = await connect(socket_path), await connect(socket_path)
        await second.send_bytes(request(2))
        await first.send_bytes(request(1))
        assert (await first.message())["id"] == 1
        assert (await second.message())["id"] == 2
        first.close()
        await second.send_bytes(request(3))
        assert (await second.message())["id"] == 3
        assert f"pid {os.getpid()}" in {client.connection.peer for client in daemon.clients}
        second.close()
    assert not socket_path.exists()


def at_listening(
    monkeypatch: pytest.MonkeyPatch, path: Path, then: Callable[[], object] = lambda: None
) -> list[tuple[str, int]]:
    """Return the names and modes in a socket's folder just before the socket listens; `then` is called there."""
    seen: list[tuple[str, int]] = []
    begin = socket.socket.listen

    class Spy(socket.socket):
        def listen(self, backlog: int = 0, /) -> None:
            seen.extend(
                (one.name, stat.S_IMODE(one.lstat().st_mode)) for one in path.parent.iterdir()
            )
            then()
            begin(self, backlog)

    monkeypatch.setattr(socket, "socket", Spy)
    return seen


@pytest.fixture(params=["a rename", "a link"])
def naming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give sockets their paths in each of the two ways."""
    if request.param == "a link":
        monkeypatch.setattr(type(SYSTEM), "rename_new", UNIX.rename_new)


@pytest.mark.usefixtures("naming")
async def test_a_socket_gets_its_path_and_leaves_no_other_name(socket_path: Path) -> None:
    path = socket_path.parent / "a" / "s"
    async with listening(Daemon(), path):
        assert list(path.parent.iterdir()) == [path]
        wire = await connect(path)
        await answered(wire, 1)
        wire.close()
    assert not list(path.parent.iterdir())


@pytest.mark.usefixtures("naming")
def test_what_takes_the_path_meanwhile_is_not_replaced(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_listening(monkeypatch, socket_path, lambda: socket_path.write_text("precious"))
    with pytest.raises(CannotListen, match="exists"):
        listen(socket_path)
    assert list(socket_path.parent.iterdir()) == [socket_path]
    assert socket_path.read_text() == "precious"


async def test_the_socket_is_private_whatever_the_umask(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = socket_path.parent / "a" / "b" / "s"
    before_listening = at_listening(monkeypatch, path)
    before = os.umask(0)
    try:
        async with listening(Daemon(), path):
            # Nobody connects before it listens, and then it has its mode and not yet its path.
            ((name, mode),) = before_listening
            assert name != path.name
            assert mode == 0o600
            assert list(path.parent.iterdir()) == [path]
            places = (path, path.parent, path.parent.parent)
            now = [stat.S_IMODE(each.lstat().st_mode) for each in places]
            assert now == [0o600, 0o700, 0o700]
            assert os.umask(0) == 0
    finally:
        os.umask(before)


async def test_a_dead_socket_is_replaced(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    async with listening(Daemon(), socket_path):
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        wire.close()


# -- a socket that was removed --------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what each look at the socket's file said; the looks come at once."""
    said: list[bool] = []
    look = Listening.is_there

    def is_there(one: Listening) -> bool:
        said.append(look(one))
        return said[-1]

    monkeypatch.setattr(unix, "ADDRESS_LOOK_SECONDS", LOOK_SECONDS)
    monkeypatch.setattr(Listening, "is_there", is_there)
    return said


async def connect_anew(path: Path) -> RawWire:
    async def connected() -> RawWire | None:
        with suppress(FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            return await connect(path)
        return None

    wire = await eventually(connected)
    assert wire is not None
    return wire


async def answered(wire: RawWire, number: int) -> None:
    await wire.send_bytes(request(number))
    assert (await wire.message())["id"] == number


@pytest.mark.parametrize("above", [0, 1, 2])
async def test_a_socket_that_was_removed_is_made_anew(
    socket_path: Path, looks: list[bool], above: int
) -> None:
    path = socket_path.parent / "a" / "b" / "s"
    daemon = Daemon()
    async with listening(daemon, path):
        before = await connect(path)
        await answered(before, 1)
        if above:
            shutil.rmtree(path.parents[above - 1])
        else:
            path.unlink()
        after = await connect_anew(path)
        await answered(after, 2)
        await answered(before, 3)
        modes = [stat.S_IMODE(each.lstat().st_mode) for each in (path, *path.parents[:2])]
        assert modes == [0o600, 0o700, 0o700]
        assert looks.count(False) == 1
        before.close()
        after.close()
    assert not path.exists()


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EMFILE])
@pytest.mark.parametrize("failing", ["the file", "the connection"])
async def test_a_look_that_fails_proves_nothing(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[bool], failing: str, code: int
) -> None:
    failure = Mock(side_effect=OSError(code, os.strerror(code)))
    async with listening(Daemon(), socket_path):
        with monkeypatch.context() as patch:
            # Behind another inode, a connection is to tell.
            found = Mock(return_value=Mock(st_dev=0, st_ino=0))
            patch.setattr(Path, "lstat", failure if failing == "the file" else found)
            patch.setattr(listening_sockets, "_is_dead", failure)
            del looks[:]
            await eventually(lambda: len(looks) > 2)
        assert looks.count(False) == 0
        wire = await connect(socket_path)
        await answered(wire, 1)
        wire.close()


@pytest.mark.parametrize("hanging", ["look", "profile"])
async def test_a_look_that_hangs_takes_one_thread_and_holds_up_nobody(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[bool], hanging: str
) -> None:
    hung, released, daemon = [0], Event(), Daemon()

    def hang(*_: object) -> bool:
        hung[0] += 1
        released.wait(PATIENCE_SECONDS)
        return hanging == "profile"

    still: Callable[[], bool] = hang if hanging == "profile" else lambda: True
    if hanging == "look":
        monkeypatch.setattr(Listening, "is_there", hang)
    try:
        async with anyio.create_task_group() as tasks:
            serving = partial(serve_unix, still=still)
            admission = Admission(daemon.byte_budget)
            await tasks.start(serving, partial(listen, socket_path), daemon.serve, admission)
            wire = await connect(socket_path)
            socket_path.unlink()
            await eventually(lambda: hung[0])
            for number in range(20):
                await answered(wire, number)
                await anyio.sleep(LOOK_SECONDS)
            assert hung == [1]
            assert not socket_path.exists()
            wire.close()
            tasks.cancel_scope.cancel()
        # Nothing waits for the look, which hangs still.
        assert not released.is_set()
    finally:
        released.set()
    assert looks.count(False) == (hanging == "profile")


async def test_a_socket_of_the_service_manager_is_looked_at_never(
    socket_path: Path, looks: list[bool]
) -> None:
    daemon, made = Daemon(), []

    def inherited() -> Listening:
        manager = socket.socket(socket.AF_UNIX)
        manager.bind(str(socket_path))
        manager.listen()
        made.append(listen_on_inherited(manager.detach()))
        return made[-1]

    async with anyio.create_task_group() as tasks:
        await tasks.start(serve_unix, inherited, daemon.serve, Admission(daemon.byte_budget))
        wire = await connect(socket_path)
        socket_path.unlink()
        for number in range(20):
            await answered(wire, number)
            await anyio.sleep(LOOK_SECONDS)
        wire.close()
        tasks.cancel_scope.cancel()
    assert (len(made), looks) == (1, [])
    assert not socket_path.exists()


async def test_what_took_the_place_of_the_folder_does_not_disturb_the_end(
    socket_path: Path,
) -> None:
    path = socket_path.parent / "a" / "s"
    async with listening(Daemon(), path):
        shutil.rmtree(path.parent)
        path.parent.write_text("in the way")
    assert path.parent.read_text() == "in the way"


async def test_a_socket_of_another_process_is_not_replaced(
    socket_path: Path, looks: list[bool]
) -> None:
    async with listening(Daemon(), socket_path):
        socket_path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(socket_path))
            other.listen()
            del looks[:]
            await eventually(lambda: len(looks) > 5)
            assert True in looks
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(socket_path))
                other.accept()[0].close()
        # The other process has ended, and left its socket.
        wire = await connect_anew(socket_path)
        await answered(wire, 1)
        wire.close()


async def test_what_cannot_be_told_or_made_is_tried_again(
    socket_path: Path, looks: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    path = socket_path.parent / "a" / "s"
    failures: list[Exception] = [OSError(errno.EIO, "no"), RuntimeError("can't start new thread")]

    def still() -> bool:
        if failures:
            raise failures.pop()
        return True

    daemon = Daemon()
    async with anyio.create_task_group() as tasks:
        serving = partial(serve_unix, still=still)
        await tasks.start(
            serving, partial(listen, path), daemon.serve, Admission(daemon.byte_budget)
        )
        shutil.rmtree(path.parent)
        path.parent.write_text("in the way")
        await eventually(lambda: not failures)
        path.parent.unlink()
        wire = await connect_anew(path)
        await answered(wire, 1)
        wire.close()
        # A look that has begun may come behind the end, which removes the socket.
        assert looks.count(False) == 1
        tasks.cancel_scope.cancel()
    assert [one.message for one in caplog.records].count("its socket was removed") == 1


async def test_for_a_profile_that_is_gone_nothing_listens_anew(
    socket_path: Path, looks: list[bool]
) -> None:
    daemon, asked = Daemon(), anyio.Event()

    def still() -> bool:
        from_thread.run_sync(asked.set)
        return False

    async with anyio.create_task_group() as tasks:
        serving = partial(serve_unix, still=still)
        await tasks.start(
            serving, partial(listen, socket_path), daemon.serve, Admission(daemon.byte_budget)
        )
        wire = await connect(socket_path)
        await answered(wire, 1)
        socket_path.unlink()
        await asked.wait()
        await answered(wire, 2)
        assert not socket_path.exists()
        wire.close()
    # Nobody is served any more, and nothing listens.
    assert looks[-1] is False


async def test_a_socket_that_somebody_listens_on_is_left_alone(socket_path: Path) -> None:
    async with listening(Daemon(), socket_path):
        with pytest.raises(CannotListen, match="another process listens"):
            await serve_on(socket_path)
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        wire.close()


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
async def test_what_is_no_socket_is_never_removed(socket_path: Path, kind: str) -> None:
    target = socket_path.parent / "target"
    if kind == "folder":
        socket_path.mkdir()
    elif kind == "file":
        socket_path.write_text("precious")
    else:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(target))
        socket_path.symlink_to(target)
    with pytest.raises(CannotListen, match=r"is not a socket; it was left alone"):
        await serve_on(socket_path)
    assert socket_path.exists()
    if kind == "file":
        assert socket_path.read_text() == "precious"


async def test_a_path_that_the_kernel_refuses_is_named(socket_path: Path) -> None:
    with pytest.raises(CannotListen, match="too long"):
        await serve_on(socket_path.parent / ("x" * 120))
    socket_path.write_text("in the way")
    with pytest.raises(CannotListen, match=str(socket_path)):
        await serve_on(socket_path / "s")


async def test_a_socket_that_replaced_ours_is_not_removed_at_the_end(socket_path: Path) -> None:
    async with listening(Daemon(), socket_path):
        # Kept beside it, so that the file system cannot give its inode to the new one.
        socket_path.rename(socket_path.with_name("old"))
        socket_path.write_text("somebody else's")
    assert socket_path.read_text() == "somebody else's"


async def test_of_many_who_find_a_dead_socket_one_listens(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    won: list[Listening] = []
    lost: list[str] = []

    def try_to_listen() -> None:
        try:
            won.append(listen(socket_path))
        except CannotListen as error:
            lost.append(str(error))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(to_thread.run_sync, try_to_listen)
    assert len(won) == 1
    assert lost == [f"another process listens on {socket_path}"] * 19
    wire = await connect(socket_path)
    wire.close()
    await to_thread.run_sync(won[0].end)
    assert not socket_path.exists()


@pytest.mark.parametrize("is_there", [True, False])
def test_the_folders_lock_is_waited_for_but_not_for_ever(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    if is_there:
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(socket_path))
    before = list(socket_path.parent.iterdir())
    set_limits(monkeypatch, FOLDER_LOCK_SECONDS=0.02)
    folder = os.open(socket_path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with pytest.raises(CannotListen, match="another process holds the lock of"):
            listen(socket_path)
        assert list(socket_path.parent.iterdir()) == before
    finally:
        os.close(folder)
    listen(socket_path).end()


async def test_another_users_process_is_closed_and_logged(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path):
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        wire = await connect(socket_path)
        assert await wire.rest() == b""
        wire.close()
    assert daemon.clients == []
    assert "another user" in caplog.text


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        (Bounds(connections=2), "the daemon has as many open connections as it may have"),
        (Bounds(connections_per_process=2), "this process has as many connections as it may"),
    ],
)
async def test_one_connection_too_many_is_told_and_closed_and_the_next_is_served_again(
    socket_path: Path, caplog: pytest.LogCaptureFixture, bounds: Bounds, why: str
) -> None:
    daemon = Daemon()
    async with listening(daemon, socket_path, bounds):
        first, second = [await connect(socket_path) for _ in range(2)]
        for wire in (first, second):
            await wire.send_bytes(request(1))
            await wire.message()
        for _ in range(3):
            third = await connect(socket_path)
            refusal = json.loads(await third.rest())
            assert (refusal["id"], refusal["error"]["code"]) == (None, -32001)
            assert refusal["error"]["message"].startswith(why)
            assert refusal["error"]["data"] == {
                "kind": "overloaded",
                "retryable": True,
                "limit": 2,
                "retry_after_ms": RETRY_AFTER_MS,
                "closing": True,
            }
            third.close()
        first.close()
        await quiet()
        fourth = await connect(socket_path)
        await fourth.send_bytes(request(4))
        assert (await fourth.message())["id"] == 4
        for wire in (second, fourth):
            wire.close()
    assert len(daemon.clients) == 3
    assert daemon.byte_budget.connections_refused == 3
    # A client that tries again and again does not fill the log.
    assert caplog.text.count("refused one connection too many") == 1


@pytest.mark.parametrize(
    ("failing", "said"),
    [("peer", "refused another user's connection"), ("call", "connection lost")],
)
@pytest.mark.usefixtures("clock")
async def test_a_flood_of_connections_that_come_to_nothing_is_counted_in_the_log(
    socket_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    said: str,
) -> None:
    peer_of = Mock(side_effect=OSError(errno.ENOTCONN, "gone")) if failing == "call" else None
    monkeypatch.setattr(unix, "SYSTEM", Mock(peer_of=peer_of or (lambda _: (os.getuid() + 1, 7))))
    async with listening(Daemon(), socket_path):
        for count in (20, 1):
            for _ in range(count):
                wire = await connect(socket_path)
                assert await wire.rest() == b""
                wire.close()
            await let_pass(REFUSALS_LOGGED_SECONDS)
    told = [record for record in caplog.records if record.message == said]
    assert [record.__dict__["left_out"] for record in told] == [0, 19]


@pytest.mark.parametrize(
    "code", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EPERM, errno.EIO]
)
async def test_accepting_goes_on_behind_a_failure(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    set_limits(monkeypatch, EXHAUSTED_SECONDS=0.0)
    failures = 3
    accept = socket.socket.accept

    class Failing(socket.socket):
        def accept(self) -> tuple[socket.socket, Any]:
            nonlocal failures
            if failures:
                failures -= 1
                raise OSError(code, os.strerror(code))
            return accept(self)

    monkeypatch.setattr(socket, "socket", Failing)
    async with listening(Daemon(), socket_path):
        wire = await connect(socket_path)
        await wire.send_bytes(request(1))
        assert (await wire.message())["id"] == 1
        assert failures == 0
        wire.close()
