"""Houses for the tests of the service: one on a disk in memory, one on the machine's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from sessiond.testing.disk import FaultDisk
from tests.kit.house import House


@pytest.fixture
def house(home: Path) -> House:
    """Return a home on a disk in memory."""
    return House(home, FaultDisk(home))


@pytest.fixture
def real_house(home: Path) -> House:
    """Return a home on the disk of this machine."""
    return House(home, Files())
