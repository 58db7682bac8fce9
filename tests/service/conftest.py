"""Houses for the tests of the service, on a disk in memory and on the machine's, and a database for several."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiond.journal.disk.files import Files
from sessiond.service.database.database import SessionDatabase
from sessiond.testing.database import MemoryDatabase
from sessiond.testing.disk import FaultDisk
from tests.kit.clock import Clock, virtual_time
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.service.one_database.site import Site
from tests.service.test_moving import Town


@pytest.fixture
def clock() -> Iterator[Clock]:
    """Return the clock of a test whose time is virtual."""
    with virtual_time() as clock:
        yield clock


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Return each event loop; one on virtual time for a test that asks for the clock."""
    if "clock" not in request.fixturenames:
        return request.param
    virtual: Clock = request.getfixturevalue("clock")
    return virtual.backend(request.param)


@pytest.fixture
def house(home: Path) -> House:
    """Return a home on a disk in memory."""
    return House(home, FaultDisk(home))


@pytest.fixture
def real_house(home: Path) -> House:
    """Return a home on the disk of this machine."""
    return House(home, Files())


@pytest.fixture(params=["native", "pi"])
def dialect(request: pytest.FixtureRequest) -> str:
    """Return each dialect whose files another program may append to."""
    return str(request.param)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a database for several daemons."""
    return Site(tmp_path.resolve())


@pytest.fixture
def town(home: Path) -> Iterator[Town]:
    """Return a profile, and a database to move the profile into."""
    made = Town(home)
    yield made
    made.database.close()


@pytest.fixture
def database() -> SessionDatabase:
    """Return a database in memory whose clock runs."""
    return MemoryDatabase(time.time_ns).connection()


@pytest.fixture(autouse=True)
def own_limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the limits that marks name, and keep the daemon from recommending a compaction.

    A recommendation comes by the clock. On a slow machine the notification would stand between those that
    a test expects. Tests of recommendations have the mark `recommends`.
    """
    if request.node.get_closest_marker("recommends") is None:
        set_limits(monkeypatch, COMPACTION_LOOK_SECONDS=86_400.0)
    for mark in request.node.iter_markers("limits"):
        set_limits(monkeypatch, **mark.kwargs)
