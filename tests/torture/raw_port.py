"""A client written from protocol.md alone: one connection, no retries.

Law: messages are recorded in the order in which they came. A burst is sent at once, and reading
goes on meanwhile. When the connection ends, unanswered requests are recorded as lost.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tests.kit.patience import PATIENCE_SECONDS, soon_answered
from tests.torture.hearing import heard
from tests.torture.records import (
    Act,
    Answered,
    Asked,
    Closed,
    Connected,
    Flushed,
    Lost,
    Notes,
    Refused,
    Seen,
    Trouble,
    Watching,
    now,
)
from tests.torture.sights import sight_of
from tests.torture.spelling import frame, wire_params
from tests.torture.wires import Wire

__all__ = ["Outcome", "RawPort", "Watch"]

_NAP_SECONDS: Final = 0.05
Outcome = Answered | Refused | Lost


class _Message(Struct):
    id: int | str | UnsetType | None = UNSET
    method: str | None = None
    params: Raw = Raw(b"{}")
    result: Raw | UnsetType = UNSET
    error: dict[str, Any] | None = None


class Watch(Struct, frozen=True):
    """The subscriptions of a connection, each behind a cursor (seq, entry id), or from now on."""

    sessions: Sequence[str] = ()
    options: Mapping[str, Any] = {}
    cursors: Mapping[str, tuple[int, str]] = {}


class RawPort:
    """Connections one after the other, each with its subscriptions."""

    kind: Final = "raw"

    def __init__(self, name: str, log: Notes, connect: Callable[[], Wire], watch: Watch) -> None:
        self._name = name
        self._log = log
        self._connect = connect
        self._watch = watch
        self._cursors = dict(watch.cursors)
        self._wire: Wire | None = None
        self._lives = 0
        self._last = 0
        self._partial = b""
        self._unsent = b""
        self._asked: dict[int, Act] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._after: dict[str, int | None] = {}
        self._flushes: dict[str, int] = {}
        self._subscribing: set[str] = set()
        self._is_draining = False
        self.is_watching: set[str] = set()

    @property
    def conn(self) -> str:
        return f"{self._name}#{self._lives}"

    @property
    def is_flushing(self) -> bool:
        """True if a flush waits for its answer."""
        return bool(self._flushes)

    @property
    def is_settled(self) -> bool:
        """True if every subscription was answered."""
        return self._wire is not None and not self._subscribing

    def open(self) -> bool:
        """Connect if there is no connection; True if this one is new."""
        if self._wire is not None:
            return False
        if self._lives:
            time.sleep(_NAP_SECONDS)
        try:
            self._wire = soon_answered(self._connect, lambda error: isinstance(error, OSError))
        except OSError:
            self._trouble(f"no daemon listened for {PATIENCE_SECONDS:.0f} s")
            raise
        os.set_blocking(self._wire.reading, False)
        os.set_blocking(self._wire.writing, False)
        self._lives += 1
        self._partial = self._unsent = b""
        self._is_draining = False
        self._log.add(Connected(now(), self.conn, self.kind))
        for session in self._watch.sessions:
            self.subscribe(session)
        return True

    def hang_up(self) -> None:
        """End the connection; what is unanswered is lost."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        for n in self._asked:
            self._settle(n, Lost(now(), self.conn, n))
        self._asked.clear()
        self._flushes.clear()
        self._subscribing.clear()
        self.is_watching.clear()

    def subscribe(self, session: str) -> None:
        """Ask for a session's events, from behind the last one that was seen on any connection."""
        params: dict[str, Any] = {"session_id": session, **self._watch.options}
        cursor = self._cursors.get(session)
        if cursor is not None:
            seq, entry_id = cursor
            params["after"] = {"seq": seq, "entry_id": entry_id} if seq else {"seq": 0}
        self._after[session] = cursor[0] if cursor else None
        self._subscribing.add(session)
        self._send(frame(f"watch {session}", "session/subscribe", params))

    def flush(self) -> None:
        """Ask where every subscription is."""
        for session in self.is_watching:
            self._flushes[session] = now()
            self._send(frame(f"flush {session}", "session/flush", {"session_id": session}))

    def exchange(self, acts: Sequence[Act]) -> list[tuple[Act, Outcome]]:
        """Send all at once, and read until each has its outcome."""
        numbered = {self._last + index: act for index, act in enumerate(acts, 1)}
        self._last += len(acts)
        for n, act in numbered.items():
            self._log.add(Asked(now(), self.conn, n, act))
            self._asked[n] = act
        burst = [frame(n, act.method, wire_params(act)) for n, act in numbered.items()]
        self._send(b"".join(burst))
        until = time.monotonic() + PATIENCE_SECONDS
        while self._asked and self._wire is not None:
            self.listen(1.0)
            if time.monotonic() > until:
                waiting = [act.method for act in self._asked.values()]
                self._trouble(f"{waiting} had no answer for {PATIENCE_SECONDS:.0f} s")
                self.hang_up()
        if self._asked or self._is_draining:
            self.hang_up()
        return [(act, self._outcomes.pop(n)) for n, act in numbered.items()]

    def listen(self, seconds: float) -> None:
        """Send what waits, and take in what has come by then."""
        wire = self._wire
        if wire is None:
            return
        writing = [wire.writing] if self._unsent else []
        try:
            readable, writable, _ = select.select([wire.reading], writing, [], seconds)
            if writable:
                self._unsent = self._unsent[os.write(wire.writing, self._unsent) :]
            data = os.read(wire.reading, 1 << 20) if readable else None
        except BlockingIOError:
            return
        except OSError:
            self._drain(wire)
            self.hang_up()
            return
        if data:
            self._take(data)
        elif data is not None:
            self.hang_up()

    def _drain(self, wire: Wire) -> None:
        """Answers that came before the end count."""
        try:
            while data := os.read(wire.reading, 1 << 20):
                self._take(data)
        except OSError:
            pass

    def _send(self, data: bytes) -> None:
        """Goes out with the next `listen`: never from inside one, which has lines in hand."""
        self._unsent += data

    def _take(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            try:
                self._message(msgspec.json.decode(line, type=_Message))
            except (msgspec.DecodeError, KeyError) as error:
                self._trouble(f"a message cannot be read: {type(error).__name__}")

    def _message(self, message: _Message) -> None:
        if message.method is not None:
            self._notice(message.method, message.params)
        elif isinstance(message.id, str):
            word, _, session = message.id.partition(" ")
            self._subscribed(word, session, message)
        elif isinstance(message.id, int) and message.id in self._asked:
            self._answer(message.id, message)
        else:
            self._trouble(f"an answer to {message.id!r}, which nobody asked")

    def _answer(self, n: int, message: _Message) -> None:
        act = self._asked.pop(n)
        if message.error is not None:
            data = message.error["data"]
            self._settle(n, Refused(now(), self.conn, n, data["kind"], data))
            self._is_draining |= data["kind"] == "draining"
            return
        assert not isinstance(message.result, UnsetType)
        self._settle(n, Answered(now(), self.conn, n, sight_of(act.method, message.result)))
        if act.method == "session/close":
            self.is_watching.discard(act.session)
            if act.session in self._watch.sessions:
                self.subscribe(act.session)

    def _settle(self, n: int, outcome: Outcome) -> None:
        self._log.add(outcome)
        self._outcomes[n] = outcome

    def _subscribed(self, word: str, session: str, message: _Message) -> None:
        if word == "watch":
            self._subscribing.discard(session)
        if message.error is not None:
            reason = message.error["data"]["kind"]
            self._flushes.pop(session, None)
            self._log.add(Closed(now(), self.conn, session, reason))
            return
        said = msgspec.json.decode(message.result)  # type: ignore[arg-type]
        if word == "flush":
            asked = self._flushes.pop(session, 0)
            self._log.add(Flushed(now(), self.conn, session, said["seq"], asked))
            return
        self.is_watching.add(session)
        types, heads = self._watch.options.get("types"), self._watch.options.get("heads")
        self._log.add(
            Watching(
                now(),
                self.conn,
                session,
                said["seq"],
                said["epoch"],
                self._after[session],
                tuple(types) if types else None,
                tuple(heads) if heads else None,
                said.get("replaced"),
                self._watch.options.get("signals", True),
            )
        )

    def _notice(self, method: str, raw: Raw) -> None:
        record = heard(self.conn, method, raw)
        if record is None:
            return
        self._log.add(record)
        if isinstance(record, Seen):
            self._cursors[record.session] = (record.seq, record.id)
        elif isinstance(record, Closed):
            self.is_watching.discard(record.session)

    def _trouble(self, text: str) -> None:
        self._log.add(Trouble(now(), self.conn, text))
