"""The place of the socket: one answer for all clients, in a folder that only the user can write."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from pathlib import Path

import pytest

import sessiond_client
from sessiond_client import place
from sessiond_client.place import (
    ADDRESS_BYTES_MAX,
    UnsafeFolder,
    address,
    require_private,
    socket_place,
)

pytestmark = pytest.mark.platform

RUNTIME = {"XDG_RUNTIME_DIR": "/run/user/7"}


def test_what_is_said_comes_before_the_environment_before_the_rule() -> None:
    environ = {**RUNTIME, "SESSIOND_SOCKET": "/e.sock", "SESSIOND_PROFILE": "work"}
    assert socket_place(environ, socket="/a.sock") == Path("/a.sock")
    assert socket_place(environ) == Path("/e.sock")
    del environ["SESSIOND_SOCKET"]
    assert socket_place(environ) == Path("/run/user/7/sessiond/work.sock")
    assert socket_place(environ, profile="play") == Path("/run/user/7/sessiond/play.sock")
    assert socket_place(RUNTIME) == Path("/run/user/7/sessiond/default.sock")


def test_a_profile_or_a_home_that_is_named_wins_over_the_socket_of_the_environment() -> None:
    environ = {**RUNTIME, "SESSIOND_SOCKET": "/e.sock"}
    assert socket_place(environ, profile="work") == socket_place(RUNTIME, profile="work")
    assert socket_place(environ, home="/h") == socket_place(RUNTIME, home="/h")
    assert socket_place(environ, profile="work", socket="/a.sock") == Path("/a.sock")


def test_a_home_of_its_own_is_in_the_name() -> None:
    digits = hashlib.sha256(b"/h").hexdigest()[:8]
    place = Path(f"/run/user/7/sessiond/default-{digits}.sock")
    assert socket_place({**RUNTIME, "SESSIOND_HOME": "/h"}) == place
    assert socket_place(RUNTIME, home="/h/") == place
    assert socket_place({**RUNTIME, "SESSIOND_HOME": "/other"}, home="/h") == place


def test_a_relative_path_is_made_absolute_here_and_now() -> None:
    assert socket_place({}, socket="s.sock") == Path.cwd() / "s.sock"
    assert socket_place(RUNTIME, home="h") == socket_place(RUNTIME, home=Path.cwd() / "h")


def test_a_relative_home_in_the_environment_counts_for_nothing() -> None:
    for home in ("h", "./h", "../h", "."):
        assert socket_place({**RUNTIME, "SESSIOND_HOME": home}) == socket_place(RUNTIME)


@pytest.mark.parametrize("runtime", [{}, {"XDG_RUNTIME_DIR": ""}, {"XDG_RUNTIME_DIR": "relative"}])
def test_without_a_runtime_folder_it_is_the_temporary_one(
    runtime: dict[str, str], socket_path: Path
) -> None:
    # A default place in a folder of a long path gets another name.
    folder = socket_path.parent
    environ = {**runtime, "TMPDIR": str(folder)}
    assert socket_place(environ) == folder / f"sessiond-{os.getuid()}" / "default.sock"
    assert socket_place(runtime).parent == Path(f"/tmp/sessiond-{os.getuid()}")


def test_a_default_place_that_is_too_long_gets_a_short_name() -> None:
    long = {"XDG_RUNTIME_DIR": f"/{'x' * 120}", "TMPDIR": "/tmp"}
    place = socket_place(long)
    assert len(os.fsencode(place)) <= ADDRESS_BYTES_MAX
    assert place.parent == Path(f"/tmp/sessiond-{os.getuid()}")
    assert place != socket_place(long, profile="other")
    assert place == socket_place(long)


@pytest.mark.parametrize("profile", ["a/b", "../x", ".hidden"])
def test_a_profile_is_a_plain_name(profile: str) -> None:
    with pytest.raises(ValueError, match="plain name"):
        socket_place(RUNTIME, profile=profile)


def test_a_folder_that_is_not_ours_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"TMPDIR": str(tmp_path)}
    folder = socket_place(environ).parent
    folder.mkdir(mode=0o700)
    assert socket_place(environ).parent == folder
    folder.chmod(0o750)
    with pytest.raises(UnsafeFolder, match=r"mode 0750, 0700 is needed"):
        socket_place(environ)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    with pytest.raises(UnsafeFolder, match="belongs to the user with uid"):
        require_private(folder)


def test_a_link_stands_for_no_folder(tmp_path: Path) -> None:
    environ = {"TMPDIR": str(tmp_path)}
    folder = socket_place(environ).parent
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    folder.symlink_to(real)
    with pytest.raises(UnsafeFolder, match="is no folder"):
        socket_place(environ)


def test_a_path_that_is_too_long_is_refused_where_there_is_no_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "_OWN_FOLDERS", tmp_path / "none")
    with (
        pytest.raises(OSError, match="choose a shorter path") as refused,
        address("/x" * 60),
    ):
        pass
    assert refused.value.errno == errno.ENAMETOOLONG
    with address("/" + "x" * (place.ADDRESS_BYTES_MAX - 1)) as name:
        assert len(name) == place.ADDRESS_BYTES_MAX


@pytest.mark.skipif(not place._OWN_FOLDERS.is_dir(), reason="the way round is through /proc")
def test_a_path_of_any_length_can_be_bound_and_connected_to(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        with address(path) as name:
            listener.bind(name)
        listener.listen()
        with address(path) as name:
            client.connect(name)
        assert path.is_socket()
    with address("/short") as name:
        assert name == "/short"


def test_the_client_offers_every_name_of_its_list_at_first_use() -> None:
    for name in sessiond_client.__all__:
        assert getattr(sessiond_client, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sessiond_client.nothing  # type: ignore[attr-defined]
