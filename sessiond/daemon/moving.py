"""Move of a whole profile between its files and the configured database, while no daemon serves it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Literal

from msgspec import Struct, structs

from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Sources, load
from sessiond.daemon.environment import real_environment
from sessiond.daemon.startup import take_profile
from sessiond.daemon.stores import database_of
from sessiond.errors import SessiondError, SessionExists
from sessiond.journal.disk.files import Files
from sessiond.journal.profile.layout import Layout
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.moving.documents import DocumentsIn, DocumentsOut
from sessiond.service.database.moving.joining import Keep
from sessiond.service.database.moving.sessions_in import SessionsIn
from sessiond.service.database.moving.sessions_out import SessionsOut
from sessiond.service.database.moving.way import Way
from sessiond.service.files.store import FileStore
from sessiond.service.ports import Progress
from sessiond.state.codec import SECRETS, STATE

Side = Literal["database", "files"]


class NotMoved(Struct, frozen=True):
    """A thing that stays where it was, and why."""

    what: str
    """One of "sessions", "states" and "secrets"."""
    name: str
    kind: str
    message: str
    taken: bool
    """True if something else has the name in the other place, so that moving again does not help."""


class Noted(Struct, frozen=True):
    """A thing that has left its place otherwise than an operator expects, and how."""

    what: str
    name: str
    message: str


class Moved(Struct, frozen=True):
    """Numbers of what was moved; in a dry run, of what would be."""

    sessions: int
    states: int
    secrets: int
    """Namespaces of each."""
    failed: list[NotMoved]
    noted: list[Noted]
    dry_run: bool


def move_profile(  # noqa: PLR0913 - the profile, the way and what is said about it
    layout: Layout,
    sources: Sources,
    to: Side,
    progress: Progress,
    *,
    dry_run: bool,
    keep: Keep | None = None,
) -> Moved:
    """Move sessions, states and secrets; what cannot be moved stops nothing else.

    `keep` is the side whose values stay where both sides have some; those of the other side are put aside.

    Raises Held while a daemon serves the profile, BadConfiguration without a configured database,
    SessiondError.
    """
    files = Files()
    configuration, _ = load(sources)
    with ExitStack() as ends:
        ends.callback(take_profile(files, layout, None).leave)
        database = database_of(configuration, layout.profile)
        if database is None:
            text = "no database is configured: set store, or SESSIOND_STORE, to its address"
            raise BadConfiguration(text)
        ends.enter_context(closing(database))
        store = ends.enter_context(closing(FileStore(layout, files, real_environment(_raised))))
        return _move(_ways(database, store, to, keep), progress, dry_run=dry_run)


def _raised(_what: str, bug: BaseException) -> str:
    raise bug


def _ways(
    database: SessionDatabase, files: FileStore, to: Side, keep: Keep | None
) -> dict[str, Way]:
    sessions, documents = (
        (SessionsIn, DocumentsIn) if to == "database" else (SessionsOut, DocumentsOut)
    )
    return {
        "sessions": sessions(database, files),
        "states": documents(database, files, STATE, keep),
        "secrets": documents(database, files, SECRETS, keep),
    }


def _move(ways: dict[str, Way], progress: Progress, *, dry_run: bool) -> Moved:
    moved = Moved(0, 0, 0, [], [], dry_run)
    for what, way in ways.items():
        names = way.names()
        count = len(names) if dry_run else _moved(what, way, names, progress, moved)
        moved = structs.replace(moved, **{what: count})
    return moved


def _moved(what: str, way: Way, names: Sequence[str], progress: Progress, outcome: Moved) -> int:
    """Move all of one way, and add what is to be told to the outcome; return how many have moved."""
    moved = 0
    for count, name in enumerate(names):
        progress.report(count, len(names), what)
        try:
            remark = way.move(name)
        except SessiondError as error:
            taken = isinstance(error, SessionExists) or error.data().get("errno") == "EEXIST"
            outcome.failed.append(NotMoved(what, name, error.kind, error.message, taken))
            continue
        moved += remark is None or remark.is_moved
        if remark is not None:
            outcome.noted.append(Noted(what, name, remark.message))
    return moved
