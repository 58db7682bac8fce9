"""The task of an open session: its turns, one after another, and its end.

Law 1: batches come first, then foreign lines, then rest. When the task ends, for any reason, every
waiting call gets an answer and every subscriber is told why. Law 2: after a wake-up at any moment
of a turn, the task takes one more turn before it rests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized
from math import inf

import anyio
from anyio import to_thread

from sessiond.errors import Internal, SessiondError, SessionNotFound, StorageError, exhausted
from sessiond.journal.store import Replaced, ReplacedReason
from sessiond.limits import RETRY_AFTER_MS
from sessiond.service.actor.flight import Flights
from sessiond.service.actor.inbox import Command, Inbox
from sessiond.service.actor.live import Live, SessionDeps, live, new_hub
from sessiond.service.actor.opening import Opening
from sessiond.service.actor.writer import SessionWriter
from sessiond.service.external.change_monitor import ChangeMonitor
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.rewritten import changed as changed_file
from sessiond.service.log.rewritten import is_rewritten
from sessiond.service.pubsub.subscription import Subscription


class Loop:
    """Serves one session's inbox from its opening on."""

    def __init__(  # noqa: PLR0913 - what one session has, and what all share
        self,
        session_id: str,
        opening: Opening,
        inbox: Inbox,
        readers: Sized,
        deps: SessionDeps,
        on_open: Callable[[Live], None],
        on_change: Callable[[], None],
    ) -> None:
        self.live: Live | None = None
        """None until the file was read."""
        self.reopening = False
        """True while the file that took the place of the open one is being read: questions wait."""
        self.stopping = False
        self.has_ended = False
        """True once `run` has ended, behind which no command is served."""
        self.is_gone = False
        """True once a look has found that another daemon deleted the session."""
        self.is_shut = False
        """True once the log was closed, and no other log could be opened in its place."""
        self.behind_batch: Callable[[], None] | None = None
        """A job for the moment at which the commands that are being served are settled."""
        self._why: SessiondError | None = None
        self._session_id = session_id
        self._opening = opening
        self._inbox = inbox
        self._readers = readers
        self._deps = deps
        self._on_open = on_open
        self._on_change = on_change
        self._monitor = ChangeMonitor(deps.watch, self.wake)
        self._wake = anyio.Event()
        self._rests = False
        """True while the task waits for work."""
        self._flights = Flights(inbox, self._stored, lambda: self._wake.set())
        self._watchers: list[Subscription] = []

    def wake(self) -> None:
        """Wake the task: there is work."""
        self._flights.wake()

    def doubt(self) -> None:
        """Look at the file next, because a read found other lines than were stored."""
        self._monitor.doubt()

    @property
    def taken(self) -> Sequence[Command]:
        """Commands that were taken out of the inbox and are not settled: one may be about to subscribe."""
        return self._flights.taken

    def stop(self, why: SessiondError | None = None) -> None:
        """Let `run` end once the inbox is empty; `why` is for who waits for a lease."""
        self._why = why
        self.stopping = True
        self.wake()

    async def run(self, find_room: Callable[[], Awaitable[None]]) -> None:
        """Open the session once there is room, and serve its inbox until `stop`; everyone waiting gets an answer."""
        error: SessiondError = Internal("the session's writer ended")
        try:
            await find_room()
            await self._open()
            while (
                self._flights.taken or len(self._inbox) or len(self._readers) or not self.stopping
            ):
                await self._serve()
        except SessiondError as refusal:
            error = refusal
        except Exception as bug:  # noqa: BLE001 - a bug here closes this session only
            error = self._closed_by(bug)
        finally:
            self.has_ended = True
            self._monitor.end()
            self._opening.failed(error)
            self._refuse_all(error)
            if self.live is not None:
                self.live.end(self._why)
                self._watchers = self.live.hub.close()
                if not self.stopping:
                    self.tell_watchers("deleted" if self.is_gone else error.kind)

    # -- what is served ------------------------------------------------------------

    @property
    def _served(self) -> Live:
        assert self.live is not None, "the session is not open yet"
        return self.live

    async def _open(self) -> None:
        opened = await self._opening.run(self._refuse, self._inbox)
        self.live = live(opened, new_hub(opened), self._inbox, self._deps)
        self._on_open(self.live)
        self._on_change()
        self._opening.done(opened)
        self._turn_to(opened)

    def _turn_to(self, opened: OpenSession) -> None:
        """Look for changes of the log that was opened just now."""
        self._monitor.turn_to(opened)
        if opened.journal.is_shared:
            # What waited for the opening may have come behind its reading.
            self.doubt()

    async def _serve(self) -> None:
        """Do what comes next; where the file has other lines now, serve those from here on."""
        opened = self._served.opened
        try:
            await self._turn(self._served)
        except Replaced as replaced:
            await self._open_again(replaced.reason)
        except SessiondError:
            raise
        except Exception:
            if not await to_thread.run_sync(is_rewritten, opened.journal):
                raise
            self._refuse(self._flights.taken, changed_file(opened.path))
            self._flights.taken = []
            await self._open_again("epoch")

    async def _open_again(self, reason: ReplacedReason) -> None:
        """Serve the file that took the place of the one that was open, to the same subscribers."""
        before = self._served
        self.reopening = True
        try:
            opened = await self._reopened(before.opened)
        except BaseException as error:
            self.is_shut = True
            is_missing = isinstance(error, SessionNotFound)
            self.is_gone = is_missing and before.opened.journal.is_shared
            raise
        self.reopening = False
        before.end()
        self._deps.was_closed(before.opened)
        # Another daemon has deleted the session, and restored it before it was opened again.
        was_gone = opened.journal.is_shared and opened.epoch == before.opened.epoch
        hub = new_hub(opened) if was_gone else before.hub
        self.live = again = live(opened, hub, self._inbox, self._deps)
        self._on_open(again)
        if was_gone:
            # Nothing was replaced: subscribers are told what those are told whose daemon looked in time.
            self._watchers = before.hub.close()
            self.tell_watchers("deleted")
        else:
            hub.begin_again(again.log, opened.epoch, opened.session.rules, reason)
        again.writer.foreign_lines.tell_standing({})
        self._turn_to(opened)
        self._on_change()

    async def _reopened(self, before: OpenSession) -> OpenSession:
        """Open the session that took the place of another; look again for commands that came meanwhile."""
        while True:
            early, came = self._inbox.commands, self._inbox.count
            try:
                return await to_thread.run_sync(self._deps.reopen, before)
            except SessionNotFound as error:
                if self._inbox.count == came:
                    raise
                # Another daemon may have restored the session before the later commands came.
                self._refuse(early, error)

    # -- one thing after another -----------------------------------------------------

    async def _turn(self, live: Live) -> None:
        """Serve a batch, or look for foreign lines, or wait. Raises Replaced."""
        # What wakes the task from here on may come behind the place where this turn looks for it.
        self._wake = anyio.Event()
        flights = self._flights
        failure, flights.failure = flights.failure, None
        if failure is not None:
            raise failure
        live.leases.serve()
        await live.leases.settle()
        if not flights.taken and len(self._inbox):
            flights.taken = self._inbox.take()
        if flights.taken:
            if self._monitor.is_urgent:
                # Once: what makes a look urgent from here on waits behind these commands.
                await self._look(live)
            overtaken, flights.overtaken = flights.overtaken, False
            changed = await live.writer.write(flights.taken, overtaken=overtaken)
            flights.taken = []
            self._stored(changed)
        elif self._monitor.is_due(live.opened):
            await self._look(live)
        else:
            await self._rest(live)

    async def _look(self, live: Live) -> None:
        """Take in foreign lines, from where the file is by now. Raises Replaced."""
        await self._follow(live)
        lines = live.writer.foreign_lines
        was_lost = lines.lost
        changed = await self._monitor.look(live.opened, live.writer)
        # A file that is not where it was may be elsewhere: the live catalog looks for it, and no call waits for that.
        if changed or (lines.lost and not was_lost):
            self._on_change()

    async def _follow(self, live: Live) -> None:
        """Go on at the path that the session's file has by now; a look follows. Raises Replaced if that is another file."""
        place = self._deps.place_of(live.opened)
        if place is None:
            return
        try:
            if not await to_thread.run_sync(live.opened.journal.follow, place):
                raise Replaced("epoch")
        except StorageError:
            # The file has left that path, too.
            return
        self._turn_to(live.opened)
        self._on_change()

    def _stored(self, changed: bool) -> bool:  # noqa: FBT001 - what `Flights` calls it with
        """Note that a batch was settled; return whether the next one may follow at once."""
        if self.behind_batch is not None:
            job, self.behind_batch = self.behind_batch, None
            job()
        if changed:
            # Still in the step that answered: a list asked for next shows it.
            self._on_change()
        live = self.live
        assert live is not None, "what was stored was open"
        if live.opened.journal.is_doubted:
            self.doubt()
        return self._rests and not (
            self._monitor.is_urgent or live.leases.waiting or live.leases.asked
        )

    async def _rest(self, live: Live) -> None:
        """Wait until there is work; a clock runs only for calls that wait for a point in time."""
        leases = live.leases
        due_in = leases.due_in() if leases.waiting or leases.asked else inf
        self._rests = True
        try:
            if due_in == inf:
                await self._wake.wait()
            else:
                with anyio.move_on_after(due_in):
                    await self._wake.wait()
        finally:
            self._rests = False
            await self._flights.landed()

    @property
    def has_disk(self) -> bool:
        """True if a batch of the session waits for a disk."""
        return self.live is not None and self.live.opened.journal.blocking

    def run_ready(self) -> None:
        """Serve what a chunk of requests has left, as far as that waits for nothing but the disk."""
        live = self.live
        if live is None:
            return
        if not live.opened.journal.blocking:
            self._run_in_memory(live.writer)
        elif self._rests and not (
            self._monitor.is_urgent or live.leases.waiting or live.leases.asked
        ):
            self._flights.begin(live.writer)
        else:
            self.wake()

    def _run_in_memory(self, writer: SessionWriter) -> None:
        """Serve a session in memory, at once: there is no disk to wait for."""
        line = self._inbox.line
        while line and not writer.writing:
            if line[0].act is not None:
                # `run` serves it and what comes behind it.
                self._wake.set()
                return
            self._flights.taken = self._inbox.take()
            try:
                changed = writer.write_in_memory(self._flights.taken)
                self._flights.taken = []
                if changed:
                    self._on_change()
            except Exception as bug:  # noqa: BLE001 - a bug here closes this session only
                # `run` waits meanwhile and would not know why it ends.
                error = self._closed_by(bug)
                self._refuse_all(error)
                self._flights.taken = []
                self._watchers = self._served.hub.close()
                self.tell_watchers(error.kind)
                self.stop()

    # -- the end ---------------------------------------------------------------------

    def tell_watchers(self, reason: str) -> None:
        """Tell who watched to the end why there are no more events."""
        watchers, self._watchers = self._watchers, []
        for subscription in watchers:
            self._served.hub.tell_closed(subscription, reason)

    def _closed_by(self, bug: Exception) -> SessiondError:
        short = exhausted(bug, RETRY_AFTER_MS)
        if short is not None and self.live is not None and not isinstance(short, StorageError):
            # `overloaded` would say that nothing was stored.
            short = StorageError(short.message, errno="ENOMEM")
        if short is not None:
            # What the disk has is served again by the next request.
            return short
        report = self._deps.environment.report_bug
        incident_id = report(f"writer of {self._session_id}", bug)
        return Internal("the session was closed by a bug in sessiond", incident_id=incident_id)

    def _refuse_all(self, error: SessiondError) -> None:
        """Refuse every command without an answer, also those that the writer had taken."""
        self._refuse([*self._flights.taken, *self._inbox.commands], error)

    def _refuse(self, commands: Iterable[Command], error: SessiondError) -> None:
        for command in commands:
            if not command.settled:
                if not self._inbox.drop(command):
                    self._inbox.settled([command])
                command.fail(error)
                command.ticket.flush()
