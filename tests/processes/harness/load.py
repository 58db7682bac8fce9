"""Clients that append and watch while somebody breaks the disk under them.

Law: a client sends its next entry when the one before is acknowledged, and sends what was
refused again, the same, until it is. What it was told is what `history` is given.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Final

import msgspec
from msgspec import Raw, Struct

from tests.kit.link import Link, Refused
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.history import Acknowledged, Seen, digest, faults, stored_in

__all__ = ["Appender", "Watcher", "at_work", "what_is_wrong"]

PATIENCE_SECONDS: Final = 60.0
_TRY_AGAIN_SECONDS: Final = 0.02
END: Final = "the-end"


class _Client(ABC):
    """One connection in a thread. What it noted may be waited for; what it raised is raised there."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        self.name = name
        self.session_id = session_id
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._daemon = daemon
        self._news = threading.Condition()
        self._failure: BaseException | None = None
        self._over = False

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def _run(self) -> None:
        try:
            with self._daemon.connect() as link:
                self.act(link)
        except BaseException as failure:  # noqa: BLE001 - whoever waits is told
            self._failure = failure
        with self._news:
            self._over = True
            self._news.notify_all()

    @abstractmethod
    def act(self, link: Link) -> None:
        """What it does, to its end."""

    def wait_until(self, so_far: Callable[[], bool], what: str) -> None:
        """Until what it noted is enough."""
        with self._news:
            self._news.wait_for(lambda: so_far() or self._over, PATIENCE_SECONDS)
            met = so_far()
        if self._failure is not None:
            raise self._failure
        assert met, f"{self.name} still waits for {what}"

    def noted(self, note: Callable[[], object]) -> None:
        """Keep something in mind, and tell whoever waits for it."""
        with self._news:
            note()
            self._news.notify_all()


class Appender(_Client):
    """Appends one entry after the other until it is told to stop."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        super().__init__(daemon, session_id, name)
        self.acknowledged: list[Acknowledged] = []
        self.refusals: Counter[str] = Counter()
        self._enough = threading.Event()

    def act(self, link: Link) -> None:
        for number in count():
            if self._enough.is_set():
                return
            self._append(link, number)

    def _append(self, link: Link, number: int) -> None:
        text = f"{self.name}-{number}"
        message = {"role": "user", "content": f"{text}:{'x' * (number * 97 % 3000)}"}
        entry = {"type": "message", "id": text, "message": message}
        stored = None
        while stored is None:
            try:
                stored = link.ask("session/append", session_id=self.session_id, entry=entry)
            except Refused as refusal:
                self._refused(refusal)
        told = Acknowledged(self.name, (text,), (stored["seq"],), (text,))
        self.noted(lambda: self.acknowledged.append(told))

    def _refused(self, refusal: Refused) -> None:
        if refusal.kind != "storage_error":
            raise refusal
        self.noted(lambda: self.refusals.update([refusal.data["errno"]]))
        time.sleep(_TRY_AGAIN_SECONDS)

    def wait_refused(self) -> None:
        """Until it was refused once more."""
        before = self.refusals.total()
        self.wait_until(lambda: self.refusals.total() > before, "a refusal")

    def wait_stored(self, more: int = 3) -> None:
        """Until so many more entries were acknowledged."""
        enough = len(self.acknowledged) + more
        self.wait_until(lambda: len(self.acknowledged) >= enough, "an answer")

    def stop(self) -> None:
        """End after the entry under way is stored."""
        self._enough.set()
        self.wait_until(lambda: self._over, "its end")


class _Told(Struct):
    seq: int
    entry: Raw


class _Event(Struct):
    method: str
    params: _Told


class _Id(Struct):
    id: str


class Watcher(_Client):
    """Sees the whole session; comes again where it was when its subscription ends."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        super().__init__(daemon, session_id, name)
        self.seen: list[Seen] = []
        self.lost = 0
        """How often its subscription was ended by an error."""
        self._ended = False

    def act(self, link: Link) -> None:
        link.send(self._subscription(0))
        while not self._ended:
            line = link.line()
            assert line is not None, "the daemon closed the connection"
            if b'"method":"session/event"' in line:
                self._see(msgspec.json.decode(line, type=_Event).params)
            elif b'"method":"session/closed"' in line or b'"error"' in line:
                assert b"storage_error" in line
                self.noted(self._lose)
                time.sleep(_TRY_AGAIN_SECONDS)
                link.send(self._subscription(len(self.seen)))

    def _subscription(self, seq: int) -> bytes:
        after = {"seq": seq, "entry_id": self.seen[-1].id} if seq else {"seq": 0}
        params = {"session_id": self.session_id, "after": after}
        body = {"id": "s", "method": "session/subscribe", "params": params}
        return msgspec.json.encode(body) + b"\n"

    def _see(self, told: _Told) -> None:
        entry_id = msgspec.json.decode(told.entry, type=_Id).id
        self.noted(lambda: self.seen.append(Seen(told.seq, entry_id, digest(told.entry))))
        self._ended = entry_id == END

    def _lose(self) -> None:
        self.lost += 1


@contextmanager
def at_work(*clients: _Client) -> Iterator[None]:
    """Clients that run; the appenders are stopped with the block."""
    for client in clients:
        client.start()
    with ExitStack() as at_end:
        for client in clients:
            if isinstance(client, Appender):
                at_end.callback(client.stop)
        yield


def what_is_wrong(
    daemon: Daemon, appenders: Iterable[Appender], watchers: Iterable[Watcher] = ()
) -> list[str]:
    """What the file of their session and what they were told disagree in, when all have stopped."""
    appenders, watchers = list(appenders), list(watchers)
    session_id = appenders[0].session_id
    with daemon.connect() as link:
        entry = {"type": "message", "id": END, "message": {"role": "user", "content": END}}
        last = link.ask("session/append", session_id=session_id, entry=entry)
        for watcher in watchers:
            watcher.wait_until(lambda: watcher._ended, "the end")  # noqa: B023
        contents = link.contents(session_id)
    (path,) = daemon.files(session_id)
    stored, found = stored_in(path.read_bytes())
    told = [*(one for each in appenders for one in each.acknowledged)]
    told.append(Acknowledged("us", (END,), (last["seq"],), (END,)))
    found += faults(stored, told, {watcher.name: watcher.seen for watcher in watchers})
    if [text.partition(":")[0] for text in contents] != [line.text for line in stored]:
        found.append("memory and file disagree")
    return found
