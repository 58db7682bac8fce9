"""A daemon that opens and closes a session of a database many times does not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.sharing_daemon import SharingDaemon
from tests.processes.harness.daemon import running
from tests.processes.harness.openings import GROWN_BYTES_MAX, grown_by_openings

pytestmark = [pytest.mark.slow, pytest.mark.search]


def test_openings_do_not_add_up(own_cluster: Cluster, tmp_path: Path) -> None:
    one, _ = SharingDaemon.pair(own_cluster.folder, tmp_path)
    with running(one), one.connect() as link:
        grown = grown_by_openings(one, link)
        assert grown < GROWN_BYTES_MAX, f"{grown >> 20} MiB"
