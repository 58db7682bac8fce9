"""Sessions by scope: one session for each key, and the switch from one project to another.

Rule 1: the id of the session follows from its key (`Scope.session_id`), so two calls at once meet in
one actor, and a call after a kill finds the file of the call before.
Rule 2: a switch first makes the old sessions durable and opens the new one. It releases the old ones
last, so a switch that is refused has changed nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from stat import S_ISDIR

from msgspec import Struct

from sessiond.catalog.finding import scoped_in
from sessiond.errors import SessiondError, SessionNotFound, StorageError
from sessiond.journal.disk.failures import storage_error, telling
from sessiond.journal.disk.files import Files
from sessiond.limits import SCOPED_SESSIONS_MAX
from sessiond.model.entries import Header
from sessiond.model.requests import BeforeSwitch
from sessiond.model.scopes import Scope, scope_bytes
from sessiond.service.actor.internal_commands import SystemClient, submit_and_wait
from sessiond.service.client import Client
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.ports import Asker
from sessiond.service.service import Service
from sessiond.session.draft import Draft
from sessiond.visible import printable

# The folder of sessions that belong to no project.
_NO_PROJECT = "/"


class Resolved(Struct, frozen=True):
    """Session of a scope, and whether the call created the session."""

    session: SessionInfo
    created: bool


class Unloadable(Struct, frozen=True):
    """Session of the new project that could not be opened, and why."""

    session_id: str
    kind: str
    message: str


class Switched(Struct, frozen=True):
    """Session that a switch leads to, and what the switch released and loaded beside that session."""

    session: SessionInfo
    created: bool
    released: list[str]
    loaded: list[SessionInfo]
    failed: list[Unloadable]


async def folder_of(service: Service, project: str) -> str:
    """Return the folder of a project with its links resolved. Raise StorageError.

    Two spellings of one folder are one project. The folder may be gone.
    """
    return await service.with_named_file(project, partial(_folder_of, service.files, project))


def _folder_of(files: Files, project: str) -> str:
    with telling("look at", Path(project)):
        folder = files.real(project)
    shown = printable(folder)
    if shown != folder:
        text = f"{shown} is not UTF-8, so no answer could name the project; rename the folder"
        raise StorageError(text, errno="EILSEQ", path=shown, retryable=False)
    return folder


async def require_folder(service: Service, folder: str) -> None:
    """Raise StorageError for a project without a folder."""
    await service.with_named_file(folder, partial(_require_folder, service.files, folder))


def _require_folder(files: Files, folder: str) -> None:
    try:
        mode = files.stat(Path(folder)).st_mode
        number = 0 if S_ISDIR(mode) else errno.ENOTDIR
    except TimeoutError as error:
        raise storage_error(error, "look at", Path(folder)) from error
    except OSError as error:
        number = error.errno or errno.EIO
    if number:
        text = (
            f"the project {folder} cannot be used: {os.strerror(number)}; name the folder of a"
            " project that is there. The sessions of a project that is gone are kept: session/list"
            " finds them by cwd"
        )
        name = errno.errorcode.get(number, "EIO")
        raise StorageError(text, errno=name, path=folder, retryable=False)


async def resolve(client: Client, key: Scope, agent: str | None) -> Resolved:
    """Return the session of a key, created when missing. Raise what opening raises, Draining."""
    resolved = await _open(client.service, key, agent)
    if key.project is not None:
        client.project = key.project
    return resolved


async def switch(
    client: Client, key: Scope, agent: str | None, left: str | None, asker: Asker
) -> Switched:
    """Save and release the sessions of the project that is `left`; load those of the key's project.

    Raises what opening raises, StorageError, and Vetoed by a client that offered the hook.
    """
    service = client.service
    old = [] if left in {None, key.project} else list(_scoped(service, left))
    if old and service.hooks.wanted("before_switch"):
        about = BeforeSwitch(old, key.session_id, "project")
        await service.hooks.before("before_switch", about)
    for session_id in old:
        await _save(service, session_id)
    now = await _open(service, key, agent)
    loaded, failed = await _load(service, key, asker)
    for session_id in old:
        actor = service.find(session_id)
        if actor is not None:
            client.release(actor)
    client.project = key.project
    if left != key.project:
        feed, revision = service.live_catalog.feed, service.live_catalog.revision
        feed.tell(revision, [(now.session.id, "switched")])
    return Switched(now.session, now.created, old, loaded, failed)


async def _open(service: Service, key: Scope, agent: str | None) -> Resolved:
    session_id = key.session_id
    header = Header(
        version=1,
        id=session_id,
        timestamp=service.environment.now(),
        cwd=key.project or _NO_PROJECT,
        agent=agent,
        scope=scope_bytes(key),
    )
    await service.let_go_if_gone(session_id)
    first = service.registry.create(header, "immediate")
    actor = service.actor(session_id)
    release = actor.retain()
    try:
        opened = await actor.ready()
        if first and opened.created:
            return Resolved(opened.whole(), created=True)
        return Resolved(await service.info(session_id), created=False)
    finally:
        release()


def _scoped(service: Service, project: str | None) -> Iterator[str]:
    """Yield the open project-scoped sessions of a project."""
    for actor in service.registry.open_actors():
        scope = actor.opened.scope
        if isinstance(scope, Scope) and scope.project == project:
            yield actor.session_id


async def _save(service: Service, session_id: str) -> None:
    """Make every entry of an open session durable. Raise StorageError."""
    actor = service.find(session_id)
    # A session that was closed meanwhile was made durable by its end.
    if actor is not None and actor.is_open:
        # Nothing is left to save of a session that another daemon has deleted.
        with suppress(SessionNotFound):
            await submit_and_wait(actor, _nothing_more, SystemClient())


def _nothing_more(draft: Draft) -> int:
    """Stage nothing: the batch makes all earlier entries durable."""
    return draft.seq


async def _load(
    service: Service, key: Scope, asker: Asker
) -> tuple[list[SessionInfo], list[Unloadable]]:
    """Open the other scoped sessions of the key's project, the latest first."""
    loaded: list[SessionInfo] = []
    failed: list[Unloadable] = []
    project = key.project
    if project is None:
        return loaded, failed
    found = await service.live_catalog.ask(
        lambda catalog: catalog.ask(lambda each: scoped_in(each, project, SCOPED_SESSIONS_MAX)),
        asker,
    )
    for session_id in found:
        if session_id == key.session_id:
            continue
        try:
            loaded.append(await service.info(session_id))
        except SessiondError as error:
            failed.append(Unloadable(session_id, error.kind, error.message))
    return loaded, failed
