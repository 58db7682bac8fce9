"""The real daemon for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon, running
from tests.processes.harness.machine import Machine
from tests.processes.harness.machine import machine as a_machine


@pytest.fixture
def daemon(socket_path: Path, home: Path) -> Iterator[Daemon]:
    """One that runs; at the end it must have had no bug and exit with 0."""
    with running(Daemon(socket_path, home / "data")) as daemon:
        yield daemon


@pytest.fixture
def machine(socket_path: Path, home: Path) -> Iterator[Machine]:
    """A machine where nothing runs yet; its runtime folder is short enough for sockets."""
    with a_machine(home, socket_path.parent) as machine:
        yield machine
