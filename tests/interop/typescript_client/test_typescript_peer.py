"""The TypeScript client sends nothing to a socket at which another user may listen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.kit.driver import Driver, JsError
from tests.kit.foreign_places import PLACES, WAYS, overheard
from tests.kit.other_user import OTHER_UID
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.interop,
    pytest.mark.conformance,
    pytest.mark.timeout(180),
]

Connect = Callable[..., dict[str, Any]]
PROGRAM: Final = """
const [library, platform, options] = process.argv.slice(1);
Object.defineProperty(process, "platform", { value: platform });
const { connect } = await import(library);
let said;
try {
  const client = await connect({ connectTimeoutMs: 3_600_000, clientId: "me", ...JSON.parse(options) });
  said = await client.callAny("server/ping", {});
  client.disconnect();
} catch ({ name, message, outcomeUnknown }) {
  said = { name, message, outcomeUnknown };
}
console.log(JSON.stringify(said));
"""
EVERY_PLACE: Final = [("linux", name) for name in PLACES] + [
    ("darwin", name) for name in PLACES | WAYS
]


@pytest.fixture
def connect(node20: Path, library: Path) -> Connect:
    """Return a function that connects on a platform; it returns the answer to a ping, or the error."""

    def run(platform: str, **options: object) -> dict[str, Any]:
        words = [str(library), platform, json.dumps(options)]
        command = [str(node20), "--input-type=module", "-e", PROGRAM, *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    return run


@pytest.mark.parametrize(("platform", "name"), EVERY_PLACE)
def test_nothing_is_sent_where_another_user_may_listen(
    platform: str,
    name: str,
    connect: Connect,
    socket_path: Path,
    absent: Callable[[str], NoReturn],
) -> None:
    if os.geteuid():
        absent("only root can listen as another user")
    make, reason = (PLACES | WAYS)[name]
    place = make(socket_path.parent)
    with overheard(place, name):
        said = connect(platform, socket=str(place))
    assert (said["name"], said["outcomeUnknown"]) == ("ForeignSocket", False)
    assert str(place) in said["message"]
    assert reason in said["message"]
    assert "mode 0700" in said["message"]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_the_own_daemon_is_talked_to(platform: str, connect: Connect, server: Daemon) -> None:
    """The folder of the socket lies in a folder that is sticky and open to every user."""
    assert connect(platform, socket=str(server.socket_path))["ok"]


def test_no_other_user_can_be_permitted(connect: Connect, socket_path: Path) -> None:
    said = connect("linux", socket=str(socket_path), peerUid=OTHER_UID)
    assert said["name"] == "TypeError"
    assert "Node does not tell the user" in said["message"]


def test_a_client_that_was_connected_fails_at_once(
    drive: Callable[..., Driver], server: Daemon
) -> None:
    js = drive(timeoutMs=3_600_000)
    assert js("return await c.ping()")["ok"]
    server.end(signal.SIGKILL)
    server.socket_path.parent.chmod(0o755)
    for code in ("await c.ping()", "await c.subscribe({session_id: 'some-session'})"):
        with pytest.raises(JsError) as refused:
            js(code)
        assert refused.value.name == "ForeignSocket"
    server.socket_path.parent.chmod(0o700)
    server.start()
    assert js("return await c.ping()")["ok"]
