"""The lines of a session of opencode where it lies, as they come.

opencode changes its rows in place. A line that a reader got never changes, so a message that may still
grow is held back, with all that follows. What changes behind that is another session (Replaced): a
message that was written again, was removed or comes before known ones, and another title or folder. So
is the end of a revert.

Law: a look reads what has changed since the last one, and the messages themselves some at a time.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Final

from msgspec import Struct

from sessiond.dialects.agents.opencode import is_made_title
from sessiond.dialects.agents.opencode_lines import (
    StoredMessage,
    has_ended,
    is_answer,
    lines_of,
    revert_in,
    revert_lines,
    session_line,
    settled,
)
from sessiond.journal.disk.files import Files
from sessiond.journal.disk.settled import is_settled
from sessiond.journal.store import Replaced
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    OPENCODE_ANSWER_SECONDS,
    OPENCODE_BATCH_MESSAGES,
    OPENCODE_LIST_MESSAGES,
    OPENCODE_PROMPT_SECONDS,
)
from sessiond.model.digests import sha256_hex
from sessiond.service.sources.agents.opencode.rows import (
    Contents,
    MessageMark,
    StoredSession,
    StoreState,
)
from sessiond.service.sources.agents.opencode.store import Chosen

_DIGEST_BYTES: Final = 16
# 60 bits, a number that is an inode everywhere.
_INODE_DIGITS: Final = 15
# Columns that tell where a session comes from, and stay as they are.
_LASTING: Final = (
    *("id", "project_id", "parent_id", "fork_session_id", "fork_message_id"),
    *("slug", "directory", "version", "time_created"),
)


def first_line_of(session: StoredSession) -> bytes:
    """Return the first line of a session: what never changes of its row."""
    columns = session.columns
    return session_line({name: columns[name] for name in _LASTING if columns.get(name) is not None})


def title_of(session: StoredSession) -> str | None:
    """Return the title of a session; None before opencode has made one."""
    return session.title if is_made_title(session.title) else None


def inode_of(session_id: str) -> int:
    """Return a number that tells the sessions of a store apart, as an inode tells files apart."""
    return int(sha256_hex(session_id.encode())[:_INODE_DIGITS], 16)


class _Taken(Struct):
    """A message whose lines were read: the message at that time, and a digest of the lines."""

    mark: MessageMark
    digest: bytes


class StoreSource:
    """A `LineSource` of one session of a store."""

    held_bytes = 0

    def __init__(
        self, chosen: Chosen, path: Path, files: Files, *, is_sample: bool = False
    ) -> None:
        """Open a session. Raises OSError, StorageError, SessionCorrupt.

        A sample has the messages at both ends of a long session, and never grows.
        """
        self.path = path
        self.inode = inode_of(chosen.session.id)
        self.read_bytes = 0
        self.is_part = False
        self._store = chosen.store
        self._id = chosen.session.id
        self._files = files
        self._is_sample = is_sample
        self._taken: list[_Taken] = []
        self._waiting: deque[MessageMark] = deque()
        self._state: StoreState | None = None
        # When a message that is held back counts as ended.
        self._due = inf
        self._has_revert = False
        known = chosen.contents if is_sample else None
        self._contents = known or self._look()
        if known is not None:
            self._waiting.extend(known.marks)
        self._first: bytes | None = first_line_of(self._contents.session)
        self._sampled = self._sample() if is_sample else []

    def _sample(self) -> list[bytes]:
        """Return the lines of the messages at both ends; of large messages, of few at the first end and the last.

        Raises OSError, StorageError, SessionCorrupt, Replaced.
        """
        ends = list(self._waiting)
        self.is_part = len(ends) > 2 * OPENCODE_LIST_MESSAGES
        if self.is_part:
            ends[OPENCODE_LIST_MESSAGES:-OPENCODE_LIST_MESSAGES] = []
        self._waiting = deque(ends)
        lines: list[bytes] = []
        while self._waiting:
            lines += self._next()
            if len(self._waiting) > 1 and sum(map(len, lines)) > AGENT_LIST_BYTES_MAX:
                self.is_part = True
                self._waiting = deque([self._waiting[-1]])
        return lines

    @property
    def behind_bytes(self) -> int:
        """Number of bytes that the last read left to the next one, by the size of a message so far."""
        return len(self._waiting) * max(1, self.read_bytes // max(1, len(self._taken)))

    # -- changes -----------------------------------------------------------------------------

    def has_changed(self) -> bool:
        """Return True: only a look at the disk tells whether the store has changed."""
        return True

    def follow(self, path: Path) -> bool:
        """Return False: a session of another store is read from its start."""
        del path
        return False

    def _may_have_changed(self) -> bool:
        if self._state is None or self._due <= self._files.now():
            return True
        return self._store.state(self._id) != self._state

    def is_rewritten(self) -> bool:
        """Return whether known messages have changed. Reads them all if the store has changed."""
        if not self._may_have_changed():
            return False
        try:
            contents = self._required()
            self._compare(contents, self._contents, all_again=True)
        except Replaced:
            return True
        return False

    def _look(self) -> Contents:
        """Return what the session has now; the messages without a line wait to be read.

        Raises OSError, StorageError, SessionCorrupt, Replaced.
        """
        state, now = self._store.state(self._id), self._files.now()
        contents = self._required()
        if self._taken or self._has_revert:
            self._compare(contents, self._contents)
        self._waiting = deque(contents.marks[len(self._taken) :])
        # A change within one tick of the clock does not show in the time.
        self._state = state if is_settled(state.mtime_ns, now) else None
        return contents

    def _required(self) -> Contents:
        contents = self._store.contents(self._id)
        if contents is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return contents

    def _compare(self, now: Contents, before: Contents, *, all_again: bool = False) -> None:
        """Raise Replaced unless the known messages are there, as they were."""
        known = self._taken
        marks = now.marks[: len(known)]
        is_another = (
            [one.id for one in marks] != [one.mark.id for one in known]
            or (known and now.is_newer != before.is_newer)
            or first_line_of(now.session) != first_line_of(before.session)
            or title_of(now.session) != title_of(before.session)
            or (self._has_revert and _revert_of(now) != _revert_of(before))
            or (self._has_revert and len(now.marks) > len(known))
        )
        if is_another:
            raise Replaced("epoch")
        pairs = list(zip(marks, known, strict=True))
        again = pairs if all_again else [pair for pair in pairs if pair[0] != pair[1].mark]
        while again:
            some = again[:OPENCODE_BATCH_MESSAGES]
            found = self._store.messages(now, [mark.id for mark, _ in some])
            digests = [_digest(lines_of(settled(one))) for one in found]
            if not found or digests != [one.digest for _, one in some[: len(found)]]:
                raise Replaced("epoch")
            for mark, one in some[: len(found)]:
                one.mark = mark
            again = again[len(found) :]

    # -- lines -------------------------------------------------------------------------------

    def behind(self) -> Sequence[bytes]:
        """Return no lines: a parent in a store comes before its children."""
        return ()

    def more(self) -> list[bytes]:
        """Return the next lines; none at the end. Raises OSError, StorageError, Replaced."""
        if self._first is not None:
            first, self._first = self._first, None
            return self._counted([first])
        if self._is_sample:
            lines, self._sampled = self._sampled, []
            return self._counted(lines)
        if not self._waiting and self._may_have_changed():
            self._contents = self._look()
        lines = []
        while not lines and self._waiting:
            lines = self._next()
        return self._counted(lines or self._revert())

    def _counted(self, lines: list[bytes]) -> list[bytes]:
        self.read_bytes += sum(map(len, lines))
        return lines

    def _next(self) -> list[bytes]:
        """Return the lines of the next messages, up to one that may still grow."""
        marks = [
            self._waiting[at] for at in range(min(len(self._waiting), OPENCODE_BATCH_MESSAGES))
        ]
        found = self._store.messages(self._contents, [mark.id for mark in marks])
        marks = marks[: len(found)]
        if not found or [one.id for one in found] != [mark.id for mark in marks]:
            raise Replaced("epoch")
        ended = self._ended(marks, found)
        lines: list[bytes] = []
        for mark, message in zip(marks[:ended], found, strict=False):
            of_message = lines_of(settled(message))
            self._taken.append(_Taken(mark, _digest(of_message)))
            lines += of_message
            self._waiting.popleft()
        if ended == 0 or len(self._waiting) == len(marks) - ended:
            # The look that finds the end of the next message finds what follows, too.
            self._waiting.clear()
        return lines

    def _ended(self, marks: Sequence[MessageMark], messages: Sequence[StoredMessage]) -> int:
        """Return how many messages come before the first one that may still grow."""
        answers = [at for at, one in enumerate(messages) if is_answer(one)]
        last_answer = answers[-1] if answers else -1
        self._due = inf
        for at, (mark, message) in enumerate(zip(marks, messages, strict=True)):
            seconds = OPENCODE_ANSWER_SECONDS if is_answer(message) else OPENCODE_PROMPT_SECONDS
            due = mark.changed_at / 1000 + seconds
            # A later answer shows that opencode goes on elsewhere, perhaps after a crash.
            if not (has_ended(message) or at < last_answer or due <= self._files.now()):
                self._due = due
                return at
        return len(messages)

    def _revert(self) -> list[bytes]:
        """Return the lines of a revert, once all messages are read."""
        is_due = not self._has_revert and len(self._taken) == len(self._contents.marks)
        if not is_due:
            return []
        message_id, _ = revert = _revert_of(self._contents)
        if message_id not in {one.mark.id for one in self._taken}:
            return []
        found = self._store.messages(self._contents, [message_id] if message_id else [])
        lines = list(revert_lines(revert, list(map(settled, found))))
        self._has_revert = bool(lines)
        return lines

    def close(self) -> None:
        """Do nothing: nothing is open between two looks."""


def _revert_of(contents: Contents) -> tuple[str | None, str | None]:
    return revert_in(contents.session.columns)


def _digest(lines: Sequence[bytes]) -> bytes:
    return bytes.fromhex(sha256_hex(b"\n".join(lines)))[:_DIGEST_BYTES]
