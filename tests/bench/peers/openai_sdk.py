"""The OpenAI Agents SDK, whose SQLiteSession keeps the items of a conversation in SQLite.

Law: the package comes from the dependency group extras. If the package is not there, the report
says so.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Final

from tests.bench.harness.errors import BenchError, Missing
from tests.bench.harness.processes import Program, Worker, working
from tests.bench.harness.results import Contender
from tests.bench.harness.rounds import Sample
from tests.bench.peers.openai_peer import Done

__all__ = [
    "openai_adds",
    "openai_adds_to_sessiond",
    "openai_contender",
    "openai_worker",
    "require_in_database",
]

PACKAGE: Final = "openai-agents"
NAME: Final = "OpenAI Agents SDK, SQLiteSession"
_databases = count(1)


def openai_contender() -> Contender:
    """Return the SDK with its version and SQLite's."""
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        found = "(not installed)"
    return Contender(NAME, f"{found}, SQLite {sqlite3.sqlite_version}")


@contextmanager
def openai_worker(folder: Path, core: int | None) -> Iterator[Worker]:
    """Run the SDK in a process of its own. Raises Missing."""
    try:
        version(PACKAGE)
    except PackageNotFoundError as error:
        reason = f"{PACKAGE} is not installed (dependency group extras)"
        raise Missing(NAME, reason) from error
    program = Program(
        name=NAME,
        command=[sys.executable, "-m", "tests.bench.peers.openai_peer"],
        log=folder / "openai.log",
        core=core,
        environment={"OPENAI_AGENTS_DISABLE_TRACING": "1"},
        pipes=True,
    )
    with working(program) as worker:
        yield worker


def openai_adds(worker: Worker, source: Path, messages: int, at_once: int) -> Sample:
    """Have the messages of a file added to a new database beside the file."""
    database = source.with_name(f"openai-{next(_databases)}.db")
    asked = {"messages": str(source), "to": str(database), "at_once": at_once}
    done = worker.ask(asked, Done)
    require_in_database(database, messages)
    for path in source.parent.glob(f"{database.name}*"):
        path.unlink()
    return {"rate": done.count / done.seconds}


def openai_adds_to_sessiond(worker: Worker, source: Path, socket: Path, at_once: int) -> Sample:
    """Have the messages of a file added by the SDK to a new session of the daemon."""
    asked = {"messages": str(source), "to": str(socket), "at_once": at_once}
    done = worker.ask(asked, Done)
    return {"rate": done.count / done.seconds}


def require_in_database(path: Path, messages: int) -> None:
    """Require so many stored messages. Raises BenchError."""
    with closing(sqlite3.connect(path)) as database:
        ((found,),) = database.execute("SELECT count(*) FROM agent_messages")
    if found != messages:
        raise BenchError(f"{messages} items were added, {found} are in the database")
