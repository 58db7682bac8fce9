"""Helpers of the methods that copy sessions: reading the source, making the copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from anyio import to_thread
from msgspec import Struct

from sessiond.errors import InvalidParams, PlanStale
from sessiond.methods._shared.common import ask, require_path
from sessiond.model.deferred import DEFERRED
from sessiond.model.ids import MAIN
from sessiond.rpc.calls import Call
from sessiond.service.actor.actor import SessionActor
from sessiond.service.client import Client
from sessiond.service.copying.source import CopyDeps, Source
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import SessionInfo
from sessiond.service.sources.agents.joining import agent_of
from sessiond.service.sources.dry_run import rehearse
from sessiond.service.store.refusals import id_is_taken
from sessiond.service.store.roots import RootOfCopy

NOT_WRITTEN: Final = "(not written yet)"
"""Text in a dry run for which no writer of summaries is asked."""


class CopyResult(Struct, frozen=True):
    """New session; for a dry run the session that would be made, which has no path."""

    session: SessionInfo


def copy_from(
    client: Client,
    call: Call[Client],
    session_id: str,
    look: Callable[[SessionActor], Callable[[], Any]],
) -> Any:
    """Run the job that `look` makes of the session's current state, and answer with its result."""
    return ask(client, call, session_id, lambda actor: actor.later(call, look(actor)))


def copy_deps(client: Client, call: Call[Client], source: OpenSession) -> CopyDeps:
    """Return what a copy of the source needs: the time, new ids, the progress."""
    environment = client.service.environment
    new_id = environment.entry_ids(source.dialect.rules)
    return CopyDeps(environment.now(), new_id, call.progress)


async def root_of_copy(
    client: Client,
    source: OpenSession,
    named: str | None = None,
    dialect: str | None = None,
    *,
    stays: bool = True,
) -> RootOfCopy | None:
    """Return the root of a copy: the named one, else that of the source, if its program reads the copy there.

    Raises InvalidParams, StorageError.
    """
    if named is not None:
        require_path(named, "root")
    wanted = dialect or own_dialect(source)
    look = partial(client.service.store.root_of_copy, source, named, wanted, stays=stays)
    root = await to_thread.run_sync(look)
    if root is not None and dialect not in {None, root.kind}:
        text = f"the root has the files of {root.kind}: leave dialect out, or name another root"
        raise InvalidParams(text, path="dialect")
    return root


def own_dialect(source: OpenSession) -> str:
    """Return the dialect that a copy has unless another one is named."""
    return "native" if agent_of(source) else source.dialect.name


async def make_copy(
    client: Client,
    session_id: str,
    lines: Callable[[], Iterator[list[bytes]]],
    *,
    dry_run: bool,
    root: RootOfCopy | None = None,
) -> SessionInfo:
    """Choose the lines and make the session of them, or return what the session would be.

    Raises SessionExists, StorageError and the errors of `lines`; after an error no session exists.
    """
    service = client.service
    # A wrong choice of lines is refused here, before any file is made.
    chunks = await to_thread.run_sync(lines)
    if not dry_run:
        return await service.make(session_id, chunks, root)
    await service.let_go_if_gone(session_id)
    if service.find(session_id) is not None:
        raise id_is_taken(session_id)
    await service.live_catalog.look_before_creation()

    def work() -> SessionInfo:
        service.store.require_free(session_id)
        return rehearse(session_id, chunks, service.environment.new_epoch())

    return await to_thread.run_sync(work)


def require_same_log(actor: SessionActor, source: Source) -> None:
    """Raise PlanStale if another file took the place of the source's while a summary was written."""
    if actor.opened is not source.opened:
        raise PlanStale(
            "the session's file was replaced while the text was written; call again",
            plan_leaf_id=source.session.id_of(source.leaf),
            leaf_id=actor.opened.session.id_of(actor.opened.session.heads[MAIN].leaf),
        )


def require_two(session_id: str, other_session_id: str) -> None:
    """Raise InvalidParams if both ids name one session."""
    if session_id == other_session_id:
        raise InvalidParams("a session cannot be merged with itself", path="other_session_id")


def ask_both(
    client: Client,
    call: Call[Client],
    session_id: str,
    other_session_id: str,
    look: Callable[[SessionActor, SessionActor], Any],
) -> Any:
    """Answer from two sessions, each after this connection's earlier mutations of that session.

    If `look` defers its answer, the request stays open until then.
    """
    service = client.service
    other = service.actor(other_session_id)

    def with_other() -> Any:
        actor = service.actor(session_id)
        answer = actor.ask(call, lambda: look(actor, other))
        if answer is DEFERRED and actor.in_memory:
            client.listener.start(serve)
        return answer

    async def serve() -> None:
        """Serve the queued requests of a session in memory.

        The question arrives in the other session's turn, or later than its request, so the end of a
        connection's chunk does not serve the session.
        """
        client.chunk_done()

    answer = other.ask(call, with_other)
    if answer is DEFERRED and other.in_memory:
        client.listener.start(serve)
    return answer
