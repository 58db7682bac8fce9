"""Every store of sessions keeps the promises of the port."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.database.store import DatabaseStore
from sessiond.service.files.store import FileStore
from sessiond.testing.daemon import standing_environment
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.stores import SESSION_STORE_CHECKS, MakeStore

pytestmark = pytest.mark.platform


@pytest.fixture
def files_at(tmp_path: Path) -> MakeStore:
    """Return the maker of stores that keep their sessions as files in one place."""
    layout, environment = Layout(tmp_path / "home", "default"), standing_environment()
    layout.make_folders(Files())
    return lambda: FileStore(layout, Files(), environment)


@pytest.mark.parametrize("check", SESSION_STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_store_of_files_keeps_the_promises_of_the_port(
    check: Callable[[MakeStore], None], files_at: MakeStore
) -> None:
    check(files_at)


@pytest.fixture
def database_at(tmp_path: Path) -> MakeStore:
    """Return the maker of stores on one database, each with the files of a machine of its own."""
    place, environment = MemoryDatabase(time.time_ns), standing_environment()
    machines = count(1)

    def make() -> DatabaseStore:
        layout = Layout(tmp_path / f"home-{next(machines)}", "default")
        layout.make_folders(Files())
        return DatabaseStore(place.connection(), FileStore(layout, Files(), environment))

    return make


@pytest.mark.parametrize("check", SESSION_STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_store_on_a_database_keeps_the_promises_of_the_port(
    check: Callable[[MakeStore], None], database_at: MakeStore
) -> None:
    check(database_at)
