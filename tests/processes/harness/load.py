"""Clients that append and watch while a disk breaks under them.

Law: an appender sends its next entry when the one before is acknowledged, and sends a refused
entry again until the daemon stores it. Each client logs as an actor of torture does, and
torture's verdict compares the logs with the file.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Final

from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.processes.harness.daemon import Daemon
from tests.torture.raw_port import Outcome, RawPort, Watch
from tests.torture.records import Act, Answered, Closed, Record, Refused, Seen, Sent
from tests.torture.verdict import verdict
from tests.torture.wires import socket_wire

__all__ = ["Appender", "Watcher", "at_work", "what_is_wrong"]

END: Final = "the-end"
_LISTEN_SECONDS: Final = 1.0


class _Client(ABC):
    """A connection in a thread. A wait for the client raises the failure of its thread."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        self.name = name
        self.session_id = session_id
        self.records: list[Record] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._daemon = daemon
        self._news = threading.Condition()
        self._failure: BaseException | None = None
        self._over = False

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        port = RawPort(self.name, self, socket_wire(self._daemon.socket_path), self.watch())
        try:
            port.open()
            self.act(port)
        except BaseException as failure:  # noqa: BLE001 - whoever waits is told
            self._failure = failure
        port.hang_up()
        with self._news:
            self._over = True
            self._news.notify_all()

    def add(self, record: Record) -> None:
        """Log a record of the port."""
        self.records.append(record)

    def watch(self) -> Watch:
        """Return what the client subscribes to."""
        return Watch()

    @abstractmethod
    def act(self, port: RawPort) -> None:
        """Do everything the client does."""

    def wait_until(self, so_far: Callable[[], bool], what: str) -> None:
        """Wait until the client's notes are enough."""
        with self._news:
            self._news.wait_for(lambda: so_far() or self._over, PATIENCE_SECONDS)
            met = so_far()
        if self._failure is not None:
            raise self._failure
        assert met, f"{self.name} still waits for {what}"

    def noted(self, note: Callable[[], object]) -> None:
        """Take a note, and wake every thread that waits for one."""
        with self._news:
            note()
            self._news.notify_all()


def _append(port: RawPort, session_id: str, mark: str, size: int = 0) -> Outcome:
    """Append one message, whose id is its mark."""
    act = Act("session/append", session_id, {}, (Sent("message", mark, mark, size=size),))
    ((_, outcome),) = port.exchange([act])
    return outcome


class Appender(_Client):
    """A client that appends one entry after the other until it is stopped."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        super().__init__(daemon, session_id, name)
        self.acknowledged = 0
        self.refusals: Counter[str] = Counter()
        self._enough = threading.Event()

    def act(self, port: RawPort) -> None:
        """Append until the client is stopped; send a refused entry again."""
        for number in count():
            if self._enough.is_set():
                return
            entry = self._entry(number)
            soon(lambda: self._stored(_append(port, *entry)))  # noqa: B023

    def _entry(self, number: int) -> tuple[str, str, int]:
        return self.session_id, f"{self.name}-{number}", number * 97 % 3000

    def _stored(self, outcome: Outcome) -> bool:
        """Note an outcome. Return whether the entry is stored."""
        match outcome:
            case Answered():
                self.noted(self._count)
                return True
            case Refused(kind="storage_error"):
                errno = outcome.data["errno"]
                self.noted(lambda: self.refusals.update([errno]))
                return False
            case _:
                raise AssertionError(outcome)

    def _count(self) -> None:
        self.acknowledged += 1

    def wait_refused(self) -> None:
        """Wait for one more refusal."""
        before = self.refusals.total()
        self.wait_until(lambda: self.refusals.total() > before, "a refusal")

    def wait_stored(self, more: int = 3) -> None:
        """Wait until so many more entries are acknowledged."""
        enough = self.acknowledged + more
        self.wait_until(lambda: self.acknowledged >= enough, "an answer")

    def stop(self) -> None:
        """Stop once the entry under way is stored."""
        self._enough.set()
        self.wait_until(lambda: self._over, "its end")


class Watcher(_Client):
    """A client that sees the whole session, and resumes when its subscription ends."""

    def __init__(self, daemon: Daemon, session_id: str, name: str) -> None:
        super().__init__(daemon, session_id, name)
        self.lost = 0
        """The number of subscriptions that a storage error ended."""
        self.saw_the_end = False

    def watch(self) -> Watch:
        """Return a subscription from the first entry on."""
        return Watch((self.session_id,), {}, {self.session_id: (0, "")})

    def add(self, record: Record) -> None:
        """Log a record of the port, and note the end and a subscription that ended."""
        super().add(record)
        match record:
            case Seen(id=entry_id) if entry_id == END:
                self.noted(self._end)
            case Closed():
                assert record.reason == "storage_error", record
                self.noted(self._lose)
            case _:
                pass

    def act(self, port: RawPort) -> None:
        """Listen to the last entry."""
        while not self.saw_the_end:
            port.listen(_LISTEN_SECONDS)
            if port.is_settled and not port.is_watching:
                port.subscribe(self.session_id)

    def _end(self) -> None:
        self.saw_the_end = True

    def _lose(self) -> None:
        self.lost += 1


class _Reader(_Client):
    """A client that appends the last entry, and reads all."""

    def act(self, port: RawPort) -> None:
        """Append the last entry, and read every entry."""
        assert isinstance(_append(port, self.session_id, END), Answered)
        ((_, outcome),) = port.exchange(
            [Act("session/entries", self.session_id, {"after_seq": 0, "limit": 10_000})]
        )
        assert isinstance(outcome, Answered), outcome


@contextmanager
def at_work(*clients: _Client) -> Iterator[None]:
    """Run clients; the appenders stop with the block."""
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
    """Return the faults of a session, whose appenders have stopped: logs against the file."""
    appenders, watchers = list(appenders), list(watchers)
    session_id = appenders[0].session_id
    reader = _Reader(daemon, session_id, "reader")
    reader.start()
    reader.wait_until(lambda: reader._over, "its end")
    for watcher in watchers:
        watcher.wait_until(lambda: watcher._over, "the end")  # noqa: B023
        assert watcher.saw_the_end
    (path,) = daemon.files(session_id)
    logs = [client.records for client in (*appenders, *watchers, reader)]
    return verdict(logs, {session_id: path.read_bytes()})
