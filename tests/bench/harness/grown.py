"""A stored session that many measurements append to."""

from __future__ import annotations

from pathlib import Path

from tests.bench.harness.errors import BenchError
from tests.bench.harness.link import Link
from tests.bench.harness.readback import require_in_file
from tests.bench.harness.servers import Daemon, Session
from tests.bench.harness.stored import path_in
from tests.bench.harness.workload import SESSION_ID

__all__ = ["Grown", "opened_long"]


class Grown:
    """A session, and the size of its file after the last measurement."""

    def __init__(self, session: Session, size: int) -> None:
        self.session = session
        self.size = size

    def require(self, appended: int) -> None:
        """Require so many entries behind those checked before. Raises BenchError."""
        assert self.session.path is not None
        self.size = require_in_file(Path(self.session.path), appended, offset=self.size)


def opened_long(ours: Daemon, control: Link, entries: int) -> Grown:
    """Open the long session of the daemon's home. Raises BenchError."""
    session = ours.open(control, SESSION_ID)
    if session.seq != entries:
        raise BenchError(f"{entries} entries in the file, {session.seq} in the session")
    path = path_in(ours.home)
    session.path = str(path)
    return Grown(session, path.stat().st_size)
