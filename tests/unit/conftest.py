"""Fixtures that several tests of the core share: a disk in memory, and a dispatcher."""

from __future__ import annotations

import pytest

from sessiond.testing.disk import FaultDisk
from tests.kit.journals import FOLDER, LOCKS
from tests.unit.dispatch_rig import Rig


@pytest.fixture
def disk(request: pytest.FixtureRequest) -> FaultDisk:
    """Return an empty disk in memory with the FOLDERS of the test's module.

    A module that names none has a folder for files and one for locks.
    """
    return FaultDisk(*getattr(request.module, "FOLDERS", (FOLDER, LOCKS)))


@pytest.fixture
def rig() -> Rig:
    """Return a dispatcher with a few methods, and a client of it."""
    return Rig()
