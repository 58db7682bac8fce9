"""The store on PostgreSQL keeps the promises of the port."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.database.store import DatabaseStore
from sessiond.service.files.store import FileStore
from sessiond.testing.daemon import standing_environment
from sessiond.testing.stores import SESSION_STORE_CHECKS, MakeStore

if TYPE_CHECKING:
    from sessiond.postgresql.database import PostgresqlDatabase

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", SESSION_STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_store_keeps_the_promises_of_the_port(
    check: Callable[[MakeStore], None],
    connect: Callable[[], PostgresqlDatabase],
    tmp_path: Path,
) -> None:
    environment, machines = standing_environment(), count(1)

    def make() -> DatabaseStore:
        layout = Layout(tmp_path / f"home-{next(machines)}", "default")
        layout.make_folders(Files())
        return DatabaseStore(connect(), FileStore(layout, Files(), environment))

    check(make)
