"""The Python clients send nothing to a socket of another user, unless that user is named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
from anyio import to_thread

from sessiond_client import ConnectionLost, ForeignSocket, connect, connect_blocking
from tests.kit.other_user import OTHER_UID, listening_as
from tests.kit.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.conformance]

ANOTHER_UID = OTHER_UID - 1


@pytest.fixture(autouse=True)
def as_root(absent: Callable[[str], NoReturn]) -> None:
    """Leave the test out without the right to be another user."""
    if os.geteuid():
        absent("only root can listen as another user")


def test_the_blocking_client_sends_nothing_to_another_user(socket_path: Path) -> None:
    with listening_as(OTHER_UID, socket_path) as listener:
        with pytest.raises(ForeignSocket, match=r"uid 65534.*peer_uid=65534") as refused:
            connect_blocking(socket_path, client_id="me", connect_timeout=3600.0).__enter__()
        assert listener.heard() == 0
    assert isinstance(refused.value, ConnectionLost)
    assert (refused.value.uid, refused.value.outcome_unknown) == (OTHER_UID, False)
    assert str(socket_path) in str(refused.value)


async def test_the_asynchronous_client_sends_nothing_to_another_user(socket_path: Path) -> None:
    with listening_as(OTHER_UID, socket_path) as listener:
        with pytest.raises(ForeignSocket):
            await connect(socket_path, client_id="me", connect_timeout=3600.0).__aenter__()
        assert await to_thread.run_sync(listener.heard) == 0


@pytest.mark.parametrize("method", ["ping", "subscribe"])
async def test_a_client_that_was_connected_sends_nothing_to_a_later_user(
    socket_path: Path, method: str
) -> None:
    """Every call fails at once: it does not wait for its time to be over."""
    with listening_as(0, socket_path) as listener:
        client = connect(socket_path, timeout=None)
        await client.__aenter__()
        assert (await client.call("server/ping"))["ok"]
        # The end of the process ends the connection, too.
        listener.end()
    with listening_as(OTHER_UID, socket_path) as listener:
        for _ in range(2):
            begin = client.ping if method == "ping" else client.subscribe("some-session").__aenter__
            with pytest.raises(ForeignSocket):
                await begin()
            assert await to_thread.run_sync(listener.heard) == 0
        client.disconnect()


def test_an_append_that_an_earlier_daemon_may_have_is_of_unknown_outcome(socket_path: Path) -> None:
    """The daemon takes the append and ends without an answer; then another user listens."""
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(socket_path))
        ours.listen()
        script = (
            "import sys, sessiond_client as s\n"
            "with s.connect_blocking(sys.argv[1], timeout=None) as client:\n"
            "    try: client.append('some-session', message={'role': 'user', 'content': 'x'})\n"
            "    except s.ForeignSocket as error: print(error.uid, error.outcome_unknown)\n"
        )
        client = subprocess.Popen(
            [sys.executable, "-c", script, str(socket_path)], stdout=subprocess.PIPE, text=True
        )
        connection, _ = ours.accept()
        assert connection.recv(1) == b"{"
        socket_path.unlink()
    with listening_as(OTHER_UID, socket_path) as listener:
        connection.close()
        said, _ = client.communicate(timeout=PATIENCE_SECONDS)
        assert listener.heard() == 0
    assert said == f"{OTHER_UID} True\n"


def test_a_user_that_is_named_is_talked_to(socket_path: Path) -> None:
    with listening_as(OTHER_UID, socket_path) as listener:
        with connect_blocking(socket_path, peer_uid=OTHER_UID) as client:
            assert client.call("server/ping") == {"ok": True}
        assert listener.heard() > 0
        with pytest.raises(ForeignSocket):
            connect_blocking(socket_path, peer_uid=ANOTHER_UID).__enter__()
        assert listener.heard() == 0


@pytest.mark.parametrize("uid", [0, OTHER_UID, ANOTHER_UID])
def test_root_and_the_own_user_are_talked_to(socket_path: Path, uid: int) -> None:
    """The client has the effective uid of `OTHER_UID`; a system manager's socket has root as its peer."""
    socket_path.parent.chmod(0o711)
    with listening_as(uid, socket_path) as listener:
        client = connect_blocking(socket_path)
        with closing(client._drivers):
            os.seteuid(OTHER_UID)
            try:
                if uid == ANOTHER_UID:
                    with pytest.raises(ForeignSocket):
                        client.__enter__()
                else:
                    assert client.__enter__().call("server/ping")["ok"]
            finally:
                os.seteuid(0)
        assert (listener.heard() > 0) is (uid != ANOTHER_UID)


def test_a_socket_that_permits_no_connection_is_told_by_its_owner(socket_path: Path) -> None:
    socket_path.parent.chmod(0o711)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(socket_path))
        os.chown(socket_path, ANOTHER_UID, -1)
        socket_path.chmod(0o600)
        theirs.listen()
        os.seteuid(OTHER_UID)
        try:
            with pytest.raises(ForeignSocket) as refused:
                connect_blocking(socket_path).__enter__()
        finally:
            os.seteuid(0)
    assert refused.value.uid == ANOTHER_UID
