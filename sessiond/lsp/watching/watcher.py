"""Watcher of a document: shows its problems after an opening, a save, or a change of the session.

Law: problems are about the file. While the editor's text differs from the file, the last problems
stay shown, and lines of an unsaved text are never blamed for stored ones. Where another program
made the difference, one problem of the whole file says so. A problem of the whole file goes with
its cause, also while the text differs.

A damaged line raises no event, nor does a file that the daemon refused, so the file's state is
polled too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio
from anyio import CancelScope, create_task_group

from sessiond.lsp.document import Document
from sessiond.lsp.watching.checking import REST_PER_CHECK, Check, Publish, show_refusal
from sessiond_client import Client, Notice, RpcError, SessiondClientError, Subscription, Timeout

_RETRY_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 2.0
_LET_GO_LOOKS: Final = 20
_LET_GO_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 1.0
_REFRESH_SECONDS: Final = 0.3
# Members of a session that differ after each change that an editor shows.
_SHOWN: Final = ("epoch", "seq", "read_only", "archived")


async def watch(
    document: Document, client: Client, publish: Publish, refresh: Callable[[], None]
) -> None:
    """Watch a document until cancelled, or until the client is closed.

    `refresh` has the editor ask again about a session that changed.
    """
    is_stale = False
    with suppress(SessiondClientError):
        while True:
            saved, state = document.saved, await document.file_state()
            try:
                is_stale = await _watch_session(
                    document, client, (publish, refresh), is_stale=is_stale
                )
            except Timeout:
                await anyio.sleep(_RETRY_SECONDS)
            except RpcError as error:
                show_refusal(document, error, publish)
                with anyio.move_on_after(_RETRY_SECONDS if error.retryable else None):
                    await _wait_for_change(document, saved, state)


async def _wait_for_change(document: Document, saved: anyio.Event, state: object) -> None:
    """Wait until the editor saves the file, or until the file's state differs from `state`.

    The function looks at the file once a second, and after a change of the text: an editor that
    reads a file again changes its text.
    """
    while not saved.is_set():
        document.changed = anyio.Event()
        with anyio.move_on_after(_LOOK_SECONDS):
            await document.changed.wait()
        if await document.file_state() != state:
            return


async def _watch_session(
    document: Document,
    client: Client,
    tell: tuple[Publish, Callable[[], None]],
    *,
    is_stale: bool,
) -> bool:
    """Watch until the editor saves the file, or the session is closed. Raises SessiondClientError.

    Returns whether the daemon will keep using what it read before the save; `is_stale` is that
    result of the previous run.
    """
    publish, refresh = tell
    opened = await client.call("session/open", path=str(document.path))
    session_id: str = opened["session"]["id"]
    saved = document.saved
    try:
        async with client.subscribe(session_id, bodies=False) as events:
            document.watch(on=True)
            check = Check(document, client, opened["session"], publish, is_stale=is_stale)
            await check.now()
            async with create_task_group() as tasks:
                tasks.start_soon(_follow, document, events, tasks.cancel_scope)
                tasks.start_soon(check.run, tasks.cancel_scope)
                tasks.start_soon(_look, document)
                tasks.start_soon(_refresh, document, client, session_id, refresh)
                await saved.wait()
                tasks.cancel_scope.cancel()
        return saved.is_set() and not await _let_go(client, session_id)
    finally:
        document.watch(on=False)
        with (
            anyio.move_on_after(_CLOSE_SECONDS, shield=True),
            suppress(SessiondClientError),
        ):
            await client.close(session_id)


async def _follow(document: Document, events: Subscription, scope: CancelScope) -> None:
    with suppress(SessiondClientError):
        async for event in events:
            document.session_changed()
            if isinstance(event, Notice) and event.method == "session/closed":
                break
    scope.cancel()


async def _look(document: Document) -> None:
    """Report a change of the session when the file's state changed, for any change of content."""
    seen = await document.file_state()
    while True:
        await anyio.sleep(_LOOK_SECONDS)
        found = await document.file_state()
        if found != seen:
            seen = found
            document.session_changed()


async def _refresh(
    document: Document, client: Client, session_id: str, refresh: Callable[[], None]
) -> None:
    """Have the editor ask again after each change, not more often than it can be answered."""
    with suppress(SessiondClientError):
        while True:
            moved = document.moved
            session: dict[str, Any] = (await client.call("session/get", session_id=session_id))[
                "session"
            ]
            state = tuple(session.get(name) for name in _SHOWN)
            is_new = document.refreshed is not None and document.refreshed != state
            if is_new or document.was_unanswered:
                refresh()
            document.refreshed, document.was_unanswered = state, False
            await moved.wait()
            await anyio.sleep(max(_REFRESH_SECONDS, document.reading_seconds * REST_PER_CHECK))


async def _let_go(client: Client, session_id: str) -> bool:
    """Close the session so that the daemon reads the file anew.

    Returns False if other clients keep the session open. The end of the subscription may reach the
    daemon after the call, so the function polls.
    """
    for _ in range(_LET_GO_LOOKS):
        await client.close(session_id)
        stats: dict[str, Any] = await client.stats()
        if session_id not in stats["sessions"]:
            return True
        await anyio.sleep(_LET_GO_SECONDS)
    return False
