"""The doctor on the state store, the secrets and their key file; nothing is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiond.cli.offline.examination import Finding
from sessiond.cli.offline.examined_state import examine_state
from sessiond.cli.options import DaemonPlace
from sessiond.journal.profile.layout import Layout
from sessiond.journal.profile.names import unfinished_key_name
from tests.kit.state import a_document


def test_each_bad_file_is_a_finding_and_good_ones_are_counted(home: Path) -> None:
    layout = Layout(home)
    place = DaemonPlace(None, None, str(home))
    assert list(examine_state(place)) == []
    for folder in (layout.state, layout.secrets):
        folder.mkdir(parents=True)
    secret = a_document("api").replace(b"sessiond_state", b"sessiond_secrets")
    content = {
        layout.state / "good.json": a_document("good"),
        layout.state / "bad.json": b"{",
        layout.state / "newer.json": a_document("newer", version=2),
        layout.state / "old.json.aside-2026-01-15T10-30-00-000000": b"x",
        layout.state / "any name": b"x",
        layout.secrets / "api.json": secret,
        layout.secrets / "open.json": a_document("open"),
    }
    for path, data in content.items():
        path.write_bytes(data)
    found = list(examine_state(place))
    assert [(one.check, one.ok) for one in found] == [
        *[("state", False)] * 3,
        ("state", True),
        ("secrets", False),
        ("secrets", True),
        ("key", False),
    ]
    told = " ".join(one.what for one in found)
    for name in ("bad.json", "newer.json", "old.json.aside", "open.json"):
        assert name in told
    assert "any name" not in told
    assert {path: path.read_bytes() for path in content} == content


KEY = b"11" * 32


@pytest.fixture
def key_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a key file that the configuration names; a namespace of secrets needs it."""
    path = home.with_name("keys") / "the.key"
    path.parent.mkdir()
    monkeypatch.setenv("SESSIOND_SECRETS_KEY_FILE", str(path))
    secrets = Layout(home).secrets
    secrets.mkdir(parents=True)
    (secrets / "api.json").write_bytes(
        a_document("api").replace(b"sessiond_state", b"sessiond_secrets")
    )
    return path


def findings(home: Path) -> list[Finding]:
    return [one for one in examine_state(DaemonPlace(None, None, str(home))) if one.check == "key"]


def write_key(path: Path, mode: int = 0o600) -> None:
    path.write_bytes(KEY)
    path.chmod(mode)


def test_a_good_key_file_is_well_and_not_changed(home: Path, key_file: Path) -> None:
    write_key(key_file)
    (found,) = findings(home)
    assert found.ok
    assert str(key_file) in found.what
    assert key_file.read_bytes() == KEY
    assert list(key_file.parent.iterdir()) == [key_file]


def test_a_missing_key_file_is_a_finding_only_if_secrets_need_it(
    home: Path, key_file: Path
) -> None:
    (found,) = findings(home)
    assert not found.ok
    assert (f"{key_file} is missing" in found.what, "1 namespace" in found.what) == (True, True)
    assert found.next is not None
    (Layout(home).secrets / "api.json").unlink()
    assert findings(home) == []


@pytest.mark.parametrize("needed", [True, False])
def test_a_key_file_that_other_users_can_read_is_a_finding(
    home: Path, key_file: Path, *, needed: bool
) -> None:
    write_key(key_file, 0o640)
    if not needed:
        (Layout(home).secrets / "api.json").unlink()
    (found,) = findings(home)
    assert not found.ok
    assert "mode 0640" in found.what
    assert "chmod 600" in (found.next or "")


def test_a_key_file_of_another_user_is_a_finding(
    home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_key(key_file)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    (found,) = findings(home)
    assert not found.ok
    assert "another user" in found.what


def test_a_key_file_that_cannot_be_read_or_lies_in_the_data_folder_is_a_finding(
    home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file.mkdir()
    (found,) = findings(home)
    assert not found.ok
    assert str(key_file) in found.what
    monkeypatch.setenv("SESSIOND_SECRETS_KEY_FILE", str(home / "the.key"))
    (found,) = findings(home)
    assert not found.ok
    assert "data folder" in found.what


def test_a_key_command_is_told_and_not_run(
    home: Path, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = key_file.with_name("trace")
    monkeypatch.setenv("SESSIOND_SECRETS_KEY_COMMAND", f'["touch", "{trace}"]')
    (found,) = findings(home)
    assert found.ok
    assert "command" in found.what
    assert not trace.exists()


@pytest.mark.parametrize("needed", [True, False])
def test_an_unfinished_key_file_is_told_and_left(
    home: Path, key_file: Path, *, needed: bool
) -> None:
    write_key(key_file)
    if not needed:
        (Layout(home).secrets / "api.json").unlink()
    for other in ("the.key", "another.key"):
        path = key_file.with_name(unfinished_key_name(other, "5" * 32))
        write_key(path)
    good, found = findings(home)
    assert (good.ok, found.ok) == (True, True)
    assert "1 unfinished key file" in found.what
    assert ("start" in (found.next or "")) is needed
    assert len(list(key_file.parent.iterdir())) == 3
