"""Looks at open sessions that another daemon has changed, for lists.

Law: the row of an open session is its actor's. So where a scan finds that lists show such a session
as before another daemon's change, the session's actor looks, and the next transaction stores its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import anyio

from sessiond.errors import SessiondError, StorageError
from sessiond.service.actor.actor import SessionActor
from sessiond.service.actor.internal_commands import look_again
from sessiond.service.store.listed import Behind, Scanner


class ActorLooks:
    """Looks at the sessions that are open, by their actors."""

    def __init__(
        self,
        scanner: Scanner,
        actors: Callable[[], Iterable[SessionActor]],
        touch: Callable[[SessionActor], None],
    ) -> None:
        """Take `touch`, which lets the next transaction store an actor's row."""
        self._scanner = scanner
        self._actors = actors
        self._touch = touch
        self._lost = 0
        """Number of looks at open sessions that the store did not answer."""

    @property
    def unanswered(self) -> int:
        """Number of looks that the store did not answer, at all sessions or at an open one."""
        return self._scanner.unanswered + self._lost

    @property
    def stale_since(self) -> str | None:
        """Time behind which lists may lack what was stored."""
        actors = self._those(self._scanner.behind())
        known = [self._scanner.shown_at, *(actor.stale_since for actor in actors)]
        return min(filter(None, known), default=None)

    async def catch_up(self) -> Behind:
        """Bring open sessions up to what other daemons have stored.

        Returns the sessions that the next transaction brings into the lists.
        """
        behind, looked = self._scanner.behind(), dict[str, object]()
        async with anyio.create_task_group() as tasks:
            for actor in self._those(behind):
                tasks.start_soon(self._look, actor, behind, looked)
        return looked

    async def _look(self, actor: SessionActor, behind: Behind, looked: dict[str, object]) -> None:
        # Who asks for the session itself is told what is wrong.
        try:
            await look_again(actor)
        except StorageError:
            self._lost += 1
        except SessiondError:
            return
        else:
            # The session is there, and lists may not show it: the look need not find a change.
            self._touch(actor)
            looked[actor.session_id] = behind[actor.session_id]

    def _those(self, behind: Behind) -> list[SessionActor]:
        return [actor for actor in self._actors() if actor.session_id in behind] if behind else []
