"""Each call of a request to PostgreSQL loses its answer once, or meets a change by another daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.test_company import ServerSite
from tests.service import test_faults_on_one_database as faults

pytestmark = pytest.mark.slow

globals().update({name: test for name, test in vars(faults).items() if name.startswith("test_")})


@pytest.fixture
def site(tmp_path: Path, cluster: Cluster, schema: str) -> ServerSite:
    return ServerSite(tmp_path.resolve(), cluster.dsn(), schema)
