"""The store that a configuration names, and what is refused before a database is asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Configuration
from sessiond.daemon.stores import store_of
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.files.store import FileStore
from sessiond.testing.daemon import standing_environment

SHARED = Configuration(store="postgresql:///sessions")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FileStore]:
    layout = Layout(tmp_path, "default")
    layout.make_folders(Files())
    store = FileStore(layout, Files(), standing_environment())
    yield store
    store.close()


def test_sessions_are_files_unless_a_store_is_named(files: FileStore) -> None:
    assert store_of(files, Configuration(), "default") is files


def test_packages_that_are_missing_are_named(
    files: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sessiond.postgresql.database", None)
    with pytest.raises(BadConfiguration, match=r"pip install '\.\[.*postgresql\]'"):
        store_of(files, SHARED, "default")


def test_a_profile_whose_schema_would_be_cut_is_refused(files: FileStore) -> None:
    with pytest.raises(BadConfiguration, match="more than 63"):
        store_of(files, SHARED, "p" * 60)
