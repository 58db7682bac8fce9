"""A mount that answers no call of the system: calls that name it end, and the others go on."""

from __future__ import annotations

import ctypes
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from tests.kit.link import Link, Refused, request
from tests.kit.patience import soon
from tests.kit.roots import pi_file, put
from tests.kit.sessions import HI, SESSION
from tests.processes.harness.daemon import Daemon, running

pytestmark = pytest.mark.slow

IMPORTS = 60
_DETACH = 2


class HungMount:
    """A FUSE file system whose server answers nothing, on a folder, until it ends."""

    def __init__(self, folder: Path) -> None:
        """Mount it. Raises OSError."""
        self.folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._server = _server_of_fuse(folder.parent)
        options = f"fd={self._server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        folder.mkdir(exist_ok=True)
        if self._libc.mount(b"hung", bytes(folder), b"fuse", 0, options.encode()):
            error = ctypes.get_errno()
            os.close(self._server)
            raise OSError(error, os.strerror(error))

    def end(self) -> None:
        """End the server, and with it every call that waits for it, by an error; unmount."""
        if self._server >= 0:
            os.close(self._server)
            self._server = -1
            self._libc.umount2(bytes(self.folder), _DETACH)


def _server_of_fuse(folder: Path) -> int:
    """Return the end of a FUSE file system that answers; a root without device files gets one in `folder`."""
    device = Path("/dev/fuse")
    if not device.exists():
        device = folder / "fuse"
        os.mknod(device, stat.S_IFCHR | 0o600, os.makedev(10, 229))
    return os.open(device, os.O_RDWR | os.O_CLOEXEC)


class Hang(Protocol):
    """Mounts a file system that answers nothing on a folder."""

    def __call__(self, folder: Path) -> HungMount: ...


@pytest.fixture
def hang(absent: Callable[[str], NoReturn]) -> Iterator[Hang]:
    """Mounts for one test; CI must be able to mount them, elsewhere only root is."""
    with ExitStack() as at_end:

        def mounted(folder: Path) -> HungMount:
            try:
                mount = HungMount(folder)
            except OSError as error:
                absent(f"cannot mount: {error}")
            at_end.callback(mount.end)
            return mount

        yield mounted


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Return the folder that hangs in a test."""
    folder = tmp_path.resolve() / "there"
    folder.mkdir()
    return folder


def everything_else(link: Link, text: str) -> None:
    """Make calls that go on beside a mount that hangs."""
    message = HI | {"content": text}
    link.ask("session/append", session_id=SESSION, message=message)
    assert SESSION in {one["id"] for one in link.ask("session/list")["sessions"]}
    assert link.ask("session/build_context", session_id=SESSION)["messages"][-1] == message
    assert link.ask("session/search", query=text)["hits"]


def test_calls_that_name_a_hung_mount_end_and_the_others_go_on(
    tmp_path: Path, socket_path: Path, there: Path, hang: Hang
) -> None:
    root = tmp_path.resolve() / "sharur"
    root.mkdir()
    daemon = Daemon(socket_path, tmp_path / "data")
    with running(daemon), daemon.connect() as link, daemon.connect() as other:
        link.create()
        link.ask("catalog/roots", action="add", path=str(root), kind="sharur")
        (root / "--p--").mkdir()
        mount = hang(there)
        path = str(there / "folder" / "one.jsonl")
        in_root = {"root": str(root), "persist": "immediate"}
        for method, params in (
            ("scope/resolve", {"scope": "project", "project": path}),
            ("scope/switch", {"scope": "global", "from_project": path}),
            ("session/list", {"root": path}),
            ("catalog/roots", {"action": "add", "path": path}),
            ("catalog/roots", {"action": "remove", "path": path}),
            ("session/create", {"cwd": path, **in_root}),
            ("session/create", {"cwd": "/p", "root": path, "persist": "immediate"}),
            ("session/open", {"path": path}),
            ("session/import", {"path": path}),
            ("state/load", {"path": path, "namespace": "n"}),
        ):
            refusal = other.refusal(method, **params)
            told = (method, params, refusal.kind, refusal.data.get("errno"))
            assert told == (method, params, "storage_error", "ETIMEDOUT")
            assert refusal.data["retryable"]
            assert "does not answer" in str(refusal)
        asked = [f"i{number}" for number in range(IMPORTS)]
        for number in asked:
            # Each folder is a place of its own.
            other.send(request(number, "session/import", path=str(there / number / "one.jsonl")))
        everything_else(link, "meanwhile")
        assert len(other.answers(asked)) == IMPORTS
        mount.end()
        # The mount is gone, and what is below answers.
        project = {"scope": "project", "project": str(there)}
        assert soon(lambda: _resolved(link, project))
        assert link.ask("session/list", root=str(there))["sessions"] == []


def _resolved(link: Link, project: dict[str, Any]) -> bool:
    """Return whether a project has its session; False while its place is silent."""
    try:
        return bool(link.ask("scope/resolve", **project)["created"])
    except Refused as refusal:
        if refusal.data["errno"] != "ETIMEDOUT":
            raise
        return False


def test_a_configured_root_that_hangs_keeps_its_name_and_its_rows(
    tmp_path: Path, socket_path: Path, there: Path, hang: Hang
) -> None:
    link_to, root = tmp_path.resolve() / "link", there / "sharur"
    put(root, "one", pi_file("session-p1", "a"))
    link_to.symlink_to(there)
    config = tmp_path / "config.toml"
    config.write_text(f"[roots]\npi = [{json.dumps(str(link_to / 'sharur'))}]\n")
    daemon = Daemon(socket_path, tmp_path / "data", options=("--config", str(config)))
    with running(daemon), daemon.connect() as link:
        link.create("hi")
        rows = link.ask("session/list")["sessions"]
        assert {one["id"] for one in rows} == {SESSION, "session-p1"}
    mount = hang(there)
    with running(daemon), daemon.connect() as link:
        listed = link.ask("session/list")
        assert [one["id"] for one in listed["sessions"]] == [one["id"] for one in rows]
        assert f"{root}" in {one["path"] for one in listed["unreadable"]}
        everything_else(link, "meanwhile")
        shown = link.ask("catalog/roots")["roots"]
        (found,) = [one for one in shown if one["added"]]
        assert found["path"] == str(root)
        assert "does not answer" in found["reason"]
        mount.end()
        assert soon(lambda: not link.ask("session/list")["unreadable"])
        assert len(link.ask("session/list")["sessions"]) == len(rows)
