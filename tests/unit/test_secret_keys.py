"""The file of the keys of a profile: its usual place, and the places of profiles of other homes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.config.configuration import Secrets
from sessiond.daemon.secret_keys import key_settings
from sessiond.journal.profile.layout import Layout, data_home


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "SESSIOND_HOME", "SESSIOND_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_each_profile_of_each_home_has_keys_of_its_own(tmp_path: Path) -> None:
    homes = data_home({}), tmp_path / "other", tmp_path / "third"
    files = [
        key_settings(Secrets(), Layout(home, profile)).file
        for home in homes
        for profile in ("default", "work")
    ]
    assert files[:2] == [
        tmp_path / ".config" / "sessiond" / "keys" / f"{name}.key" for name in ("default", "work")
    ]
    assert len(set(files)) == len(files)
    assert {file.parent for file in files} == {files[0].parent}


def test_the_file_that_a_person_names_is_that_of_all_profiles(tmp_path: Path) -> None:
    named = Secrets(key_file="~/my.key")
    for profile in ("default", "work"):
        found = key_settings(named, Layout(tmp_path / "other", profile))
        assert (found.file, found.is_shared) == (tmp_path / "my.key", True)
