"""The servers for appends: sessiond, and the raw server that does the minimum.

Law: one load generator sends to both servers over one kind of socket. Each server has a way to
check that all acknowledged entries are there.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

import sessiond
from tests.bench.harness.errors import BenchError
from tests.bench.harness.link import Link
from tests.bench.harness.processes import Program, listening
from tests.bench.harness.readback import require_in_file, require_in_memory
from tests.bench.harness.results import Contender

__all__ = [
    "SESSIOND",
    "Daemon",
    "RawServer",
    "Server",
    "Session",
    "daemon",
    "new_home",
    "raw_server",
    "sessions_folder",
]

SESSIOND: Final = Contender("sessiond", sessiond.__version__)
RAW: Final = Contender("raw asyncio BufferedProtocol + msgspec", sys.version.split()[0])
PROFILE: Final = "default"
COMMAND: Final = (str(Path(sys.executable).with_name("sessiond")),)

_numbers = count(1)


class Session(Struct):
    """A session as session/create and session/open answer it; what else they say is not read."""

    id: str
    path: str | None = None
    seq: int = 0


class _Opened(Struct):
    session: Session


class Server(Protocol):
    """Something that takes appends."""

    @property
    def contender(self) -> Contender:
        """Name and version of the server."""
        ...

    def connect(self) -> Link:
        """Return a new connection."""
        ...

    def create(self, link: Link, persist: str) -> Session:
        """Create an empty session."""
        ...

    def require(self, link: Link, session: Session, appended: int) -> None:
        """Require `appended` entries behind those checked before. Raises BenchError."""
        ...


class Daemon:
    """A running sessiond."""

    contender = SESSIOND

    def __init__(self, connect: Callable[[], Link], home: Path, socket_path: Path) -> None:
        self.connect = connect
        self.home = home
        self.socket_path = socket_path

    def create(self, link: Link, persist: str) -> Session:
        """session/create with an id as long as the one in the frames."""
        name = f"bench-{next(_numbers):010d}"
        asked = {"cwd": "/bench", "session_id": name, "persist": persist}
        return link.ask("session/create", asked, _Opened).session

    def open(self, link: Link, session_id: str) -> Session:
        """session/open."""
        return link.ask("session/open", {"session_id": session_id}, _Opened).session

    def require(self, link: Link, session: Session, appended: int) -> None:
        """Re-read the file, or the session if it has none."""
        if session.path is None:
            require_in_memory(link, session.id, appended, after=session.seq)
        else:
            require_in_file(Path(session.path), session.seq + appended)
        session.seq += appended


class RawServer:
    """A running `peers/raw_server.py`."""

    contender = RAW

    def __init__(self, connect: Callable[[], Link]) -> None:
        self.connect = connect

    def create(self, link: Link, persist: str) -> Session:
        """Create a session, which is a name and a counter."""
        name = f"bench-{next(_numbers):010d}"
        return link.ask("session/create", {"session_id": name}, _Opened).session

    def require(self, link: Link, session: Session, appended: int) -> None:
        """Require the right count of parsed appends: the raw server stores nothing."""
        found = link.ask("raw/count", {"session_id": session.id}, int)
        session.seq += appended
        if found != session.seq:
            raise BenchError(f"the raw server parsed {found} of {session.seq} appends")


@contextmanager
def daemon(
    folder: Path,
    core: int | frozenset[int] | None,
    home: Path | None = None,
    *,
    command: Sequence[str] = COMMAND,
) -> Iterator[Daemon]:
    """`sessiond serve` on a home of its own. Raises Missing."""
    home = home or new_home(folder)
    with _socket_folder() as sockets:
        socket_path = sockets / "s"
        ours = Program(
            name=SESSIOND.name,
            command=[*command, "serve", "--socket", str(socket_path)],
            log=folder / "sessiond.log",
            core=core,
            environment={"SESSIOND_HOME": str(home), "SESSIOND_PROFILE": PROFILE},
        )
        with listening(ours, socket_path) as connect:
            yield Daemon(connect, home, socket_path)


def new_home(folder: Path) -> Path:
    """Make a data folder without sessions."""
    home = Path(tempfile.mkdtemp(prefix="home-", dir=folder))
    for path in (home / "profiles", home / "profiles" / PROFILE, sessions_folder(home)):
        path.mkdir(mode=0o700)
    return home


def sessions_folder(home: Path) -> Path:
    """Return the folder in which the daemon of this home looks for sessions."""
    return home / "profiles" / PROFILE / "sessions"


@contextmanager
def raw_server(folder: Path, core: int | None) -> Iterator[RawServer]:
    """Run the raw server."""
    with _socket_folder() as sockets:
        socket_path = sockets / "s"
        raw = Program(
            name=RAW.name,
            command=[sys.executable, "-m", "tests.bench.peers.raw_server", str(socket_path)],
            log=folder / "raw.log",
            core=core,
        )
        with listening(raw, socket_path) as connect:
            yield RawServer(connect)


@contextmanager
def _socket_folder() -> Iterator[Path]:
    """Make a folder with a path short enough for a socket's path of at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="sdb-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
