"""Every store of sessions keeps the promises of the port."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.files.store import FileStore
from sessiond.testing.daemon import standing_environment
from sessiond.testing.stores import SESSION_STORE_CHECKS, MakeStore


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
