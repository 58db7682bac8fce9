"""Daemons on one server, killed and cut off with their database, keep what they promise together."""

from __future__ import annotations

import pytest

from tests.postgresql.cluster import Cluster
from tests.postgresql.siege import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.search]


def test_a_short_siege_breaks_no_promise(cluster: Cluster) -> None:
    # The fixture skips, or fails, without a server; a siege has a server of its own.
    assert main(["--daemons", "3", "--minutes", "0.35"]) == 0
