"""Open session: its index, its lines on disk, its dialect, its metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.dialects.base import Dialect
from sessiond.dialects.places import Appears
from sessiond.errors import SessiondError, StorageError
from sessiond.journal.store import Found, SessionLog
from sessiond.limits import INLINE_READ_BYTES
from sessiond.model.entries import Header
from sessiond.model.events import Origin, ReadOnlyReason
from sessiond.model.ids import MAIN
from sessiond.model.row import Effect, InfoEffect, Kind, LeafEffect, Row
from sessiond.model.scopes import Scope, scope_in
from sessiond.model.working.entries import BadState, StateEffect
from sessiond.service.log.ending import EndingCache, SessionState
from sessiond.service.log.events import Event
from sessiond.service.log.line_indexer import LineIndexer
from sessiond.service.log.session_info import Persist, SessionInfo, head_infos, lineage_of
from sessiond.session.index import Session
from sessiond.session.settings import Stated

EXTERNAL: Final = Origin(external=True)
_SAID: Final = frozenset({int(Kind.USER), int(Kind.ASSISTANT)})


class OpenSession(Struct, eq=False):
    """Open session. Only its writer changes the index.

    `place` is the future path of a draft's file, once the draft is a conversation.
    """

    session_id: str
    session: Session
    journal: SessionLog
    dialect: Dialect
    header: Header
    intake: LineIndexer
    epoch: str
    persist: Persist
    place: Path | None
    created_at: str
    created: bool = False
    waits_at: str = ""
    """The root or folder outside the profile whose disk the session's batches wait for."""
    elsewhere: bool = False
    """True if the file lies in no folder of the profile: it is another program's or the user's."""
    hidden: bool = False
    """True if the file lies elsewhere, in no root, and was only read: lists show it after its first change."""
    unwritable: ReadOnlyReason | None = None
    """Reason why sessiond never writes to the file, however whole the file is."""
    archived: bool = False
    """True if the file lies in the archive: it can be read, not changed."""
    partial: bool = False
    """True if only the beginning and the end of a large file were read, for a list."""
    dirty: bool = False
    """True if this daemon has appended entries that no sync has covered yet."""

    appears: Appears = "answered"
    """Moment at which a draft comes to its place: in a root as the root's program has it."""

    endings: EndingCache = msgspec.field(default_factory=EndingCache)

    @property
    def inline_bytes(self) -> int:
        """Bytes of lines that are read on the event loop at most: none outside the profile, where a disk may hang."""
        return -1 if self.waits_at else INLINE_READ_BYTES

    @property
    def is_due(self) -> bool:
        """True if the lines of a draft say that it is to come to its place."""
        session = self.session
        if self.appears == "entry" and session.seq:
            return True
        is_said = self.appears == "said" and session.first_message is not None
        return self.is_lasting or is_said

    @property
    def is_lasting(self) -> bool:
        """True if the session holds an answer, or what an agent must remember."""
        return self.session.has_assistant or self.session.state.begun

    def is_due_with(self, rows: Sequence[Row]) -> bool:
        """Return whether a draft is to come to its place with these rows, answers apart."""
        if self.place is None:
            return False
        if any(_is_state(row.effect) for row in rows):
            return True
        if self.appears == "answered":
            return False
        if self.appears == "entry":
            return bool(rows)
        return any(row.kind in _SAID for row in rows)

    @property
    def pending(self) -> bool:
        """True for a draft that has no place among the sessions yet."""
        return self.place is not None

    @property
    def path(self) -> Path | None:
        """Path of the file; None in memory."""
        return self.journal.path

    @property
    def read_only(self) -> bool:
        """True if the session can be read and not changed."""
        return self.read_only_reason is not None

    @property
    def read_only_reason(self) -> ReadOnlyReason | None:
        """Reason why the session cannot be changed; None if it can, or is only archived."""
        if self.unwritable is not None:
            return self.unwritable
        return None if self.session.read_only_line is None else "bad_line"

    def info(self, *, reads: bool = True) -> SessionInfo:
        """Return the current description of the session for the wire.

        Without `reads` no line is read, so that the state may be that of an answer without tool calls;
        `with_state` makes it exact.
        """
        session, header = self.session, self.header
        leaf = session.heads[MAIN].leaf
        settings = self.stated.at(session, leaf)
        find_ending = self.endings.near if reads else self.endings.known
        ending = find_ending(session, self.journal, self.dialect)
        state = SessionState.of(session, ending, self._fact("status"))
        return SessionInfo(
            id=self.session_id,
            path=str(self.path) if self.path else None,
            cwd=header.cwd,
            title=self._fact("title", header.title) or self._fact("auto_title") or None,
            auto_title=self._fact("auto_title") or None,
            agent=self._fact("agent", header.agent),
            model=settings.model,
            provider=settings.provider,
            thinking_level=settings.thinking_level,
            tags=self._fact("tags", header.tags) or [],
            status=state.status,
            dry_run=self._fact("dry_run", header.dry_run),
            created_at=self.created_at,
            updated_at=session.updated_at or self.created_at,
            started_at=state.started_at,
            ended_at=state.ended_at,
            seq=session.seq,
            leaf_id=session.id_of(leaf),
            heads=head_infos(session),
            message_count=session.message_counts[leaf],
            message_total=session.message_total,
            turn_count=session.turn_counts[leaf],
            entry_count=session.entry_count,
            first_message=session.first_message,
            usage=session.usage,
            persisted=self.journal.blocking and not self.pending,
            persist=self.persist,
            dialect=self.dialect.name,
            agent_program=self.dialect.name,
            archived=self.archived,
            read_only=self.read_only,
            read_only_reason=self.read_only_reason,
            problems=session.problem_count,
            epoch=self.epoch,
            scope=self.scope,
            partial=self.partial or UNSET,
            lineage=lineage_of(header, self.session_id, self._fact("lineage")),
        )

    def with_state(self, info: SessionInfo) -> SessionInfo:
        """Return a description of the session's current lines with an exact state. Blocking."""
        ending = self.endings.read(self.session, self.journal, self.dialect)
        if info.seq != self.session.seq:
            # The next description tells the later state.
            return info
        state = SessionState.of(self.session, ending, self._fact("status"))
        return msgspec.structs.replace(
            info, status=state.status, started_at=state.started_at, ended_at=state.ended_at
        )

    def whole(self) -> SessionInfo:
        """Return the description with the fields that may be long."""
        header = self.header
        return msgspec.structs.replace(
            self.info(),
            plan=self._fact("plan"),
            system_prompt=self._fact("system_prompt", header.system_prompt),
            compaction=self.compaction,
            metadata=self._fact("metadata", _given(header.metadata)),
        )

    @property
    def scope(self) -> Scope | UnsetType:
        """Key of a scoped session; UNSET for any other session."""
        return scope_in(self.header.scope, self.session_id)

    @property
    def stated(self) -> Stated:
        """Model and thinking level that the header and the `session_info` entries state."""
        return Stated.of(self.session, self.header.model)

    def compaction_settings_at(self, seq: int) -> Raw | None:
        """Return the session's own compaction settings as they were at a line.

        Reads lines only if the settings have changed since. Raises StorageError.
        """
        session = self.session
        if session.fact_seqs.get("compaction", 0) <= seq:
            return self.compaction
        at = seq
        while (at := session.kinds.rfind(int(Kind.INFO), 1, at)) > 0:
            effect = self.dialect.row(self.journal.read(at, at)[0]).effect
            if isinstance(effect, InfoEffect) and "compaction" in effect.facts:
                stated: Raw | None = effect.facts["compaction"]
                return stated
        return _given(self.header.compaction)

    @property
    def compaction(self) -> Raw | None:
        """The session's own compaction settings, as they were sent."""
        own: Raw | None = self._fact("compaction", _given(self.header.compaction))
        return own

    # -- storing: `store` and `promote` run in the writer's worker thread ----------

    def store(
        self, lines: Sequence[bytes], *, sync: bool, has_assistant: bool, late: bool = False
    ) -> SessiondError | None:
        """Write the lines, durably if `sync`, with all earlier lines.

        Moves a draft to its place once it is a conversation. Raises Overtaken if a foreign writer appended
        first, Replaced for another file. With `late` foreign lines come before these lines.
        """
        place = self.place
        if place is not None and not (has_assistant or self.is_due):
            place = None
        try:
            if lines:
                if place is not None:
                    self.journal.expect_move(place)
                self.journal.append(lines, sync=sync, late=late)
            elif sync:
                # The synced file must be the one that has the name.
                self.journal.look()
                self.journal.sync()
        except SessiondError as error:
            return error
        self.dirty = not sync
        if place is not None:
            self.promote()
        return None

    def send(self, lines: Sequence[bytes], *, sync: bool) -> None:
        """Let the log begin with what `store` ends, as far as that waits for nothing."""
        if self.place is None:
            self.journal.send(lines, sync=sync)

    def store_all(self, lines: Sequence[bytes], *, late: bool) -> None:
        """Write the lines durably; raises what `store` returns or raises."""
        error = self.store(lines, sync=True, has_assistant=False, late=late)
        if error is not None:
            raise error

    def promote(self) -> None:
        """Move a draft into the sessions folder; the next append tries again after a failure."""
        assert self.place is not None, "a pending session knows where it will go"
        try:
            self.journal.move(self.place)
        except StorageError:
            return
        self.place = None

    def adopt(self, found: Sequence[Found]) -> int:
        """Index found lines, foreign or left by a refused batch; return the seq of the first."""
        return self.intake.take_later(one.line for one in found)

    def events_of(self, found: Sequence[Found], first: int) -> list[Event]:
        """Return the entries among found lines as events; `first` is what `adopt` returned."""
        return [
            self.event(seq, one.line, EXTERNAL if one.external else None)
            for seq, one in enumerate(found, first)
            if self.session.is_entry(seq)
        ]

    def event(self, seq: int, line: bytes, origin: Origin | None = None) -> Event:
        """Return a stored entry as an event, without origin unless one is given."""
        row = self.dialect.row(line)
        effect = row.effect
        if isinstance(effect, LeafEffect) and effect.target_id is not None and not effect.drop:
            # As at replay: an unknown target moves no head; a record stands for its parent.
            target = self.session.target_of(effect.target_id, seq)
            row.effect = None if target is None else LeafEffect(self.session.id_of(target))
        return Event(seq, row, self.dialect.wire(line), origin)

    @property
    def durability(self) -> str:
        """Durability of every entry up to now."""
        if not self.journal.blocking:
            return "memory"
        # `lacks_sync`, word by word: this runs for every batch.
        return "os" if self.dirty or not self.journal.is_synced else "disk"

    @property
    def lacks_sync(self) -> bool:
        """True if the session has entries, of any daemon, that may not be durable yet."""
        return self.dirty or not self.journal.is_synced

    def _fact(self, name: str, default: Any = None) -> Any:
        return self.session.facts.get(name, default)

    def line_time(self, seq: int) -> str:
        """Return the time of the entry at `seq`; reads its line."""
        return self.dialect.timestamp(self.journal.read(seq, seq)[0])


def _is_state(effect: Effect | None) -> bool:
    """Return whether an entry with this effect holds what an agent must remember."""
    return isinstance(effect, StateEffect) and not isinstance(effect, BadState)


def _given(raw: Raw | UnsetType) -> Raw | None:
    return None if isinstance(raw, UnsetType) else raw
