"""Connections of a daemon to its database, which a test holds, cuts or watches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from functools import partial
from typing import Any, Final

from sessiond.errors import StorageError
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.silence import Silence
from sessiond.testing.database import MemorySent
from tests.kit.patience import PATIENCE_SECONDS, eventually

OUT_OF_REACH = StorageError("the connection ended", errno="EIO", path="", retryable=True)
Fate = Callable[[SessionDatabase, str, Callable[[], Any]], Any]
"""What one call meets: the database of another connection, the session of the test, and the call."""

# Calls that threads of the daemon make beside all requests.
_BESIDE: Final = frozenset(
    {
        "beat",
        "beats",
        "clean",
        "close",
        "end_of_daemons",
        "forget_daemons",
        "ring",
        "stop_listening",
        "wait",
    }
)


class Wrapped:
    """A connection of which a test changes some methods."""

    def __init__(self, inner: SessionDatabase) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def send(self, *args: Any, **options: Any) -> MemorySent:
        """Begin an append, by the `append` that a test may have changed."""
        return MemorySent(lambda: self.append(*args, **options))


class Mute(Wrapped):
    """A connection that tells no other daemon of changes, and hears of none.

    Also what a server makes up for, once its connection listens, comes to no daemon that never polls.
    """

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.has_looked = threading.Event()
        """Set behind the looks with which the watch of open sessions begins."""
        self._is_over = threading.Event()

    def ring(self, numbers: Any) -> None:
        """Do nothing."""

    def wait(self, seconds: float) -> None:
        """Wait until the daemon ends, or so many seconds."""
        self.has_looked.set()
        self._is_over.wait(min(seconds, threading.TIMEOUT_MAX))

    def close(self) -> None:
        """Release all connections, and the thread that waits."""
        self._is_over.set()
        self.inner.close()


class Counted(Wrapped):
    """A connection that counts its queries for positions, which take a while."""

    queries = 0

    def heads(self, numbers: Any) -> Any:
        self.queries += 1
        time.sleep(0.02)
        return self.inner.heads(numbers)


class Held(Wrapped):
    """A connection whose next call of one method waits until a test lets the call go."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.holds = ""
        """Name of the method whose next call waits; empty if none does."""
        self.has_begun = threading.Event()
        self.may_go = threading.Event()

    def __getattr__(self, name: str) -> Any:
        if name == self.holds:
            self.holds = ""
            self.has_begun.set()
            assert self.may_go.wait(PATIENCE_SECONDS)
        return super().__getattr__(name)


class Severed(Wrapped):
    """A connection that a test takes away and brings back."""

    is_there = True

    def __getattr__(self, name: str) -> Any:
        if not self.is_there and name not in {"name", "close"}:
            raise OUT_OF_REACH
        return super().__getattr__(name)


class Losing(Wrapped):
    """A connection of which some calls fail before their work, and some behind that."""

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.before: set[str] = set()
        self.behind: set[str] = set()
        self.first: Counter[str] = Counter()
        """Number of calls of a name that come through before later calls fail."""
        self.lost: Counter[str] = Counter()
        """The calls that have failed, by name."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        return self._failing(name, method) if name in self.before | self.behind else method

    def _failing(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.first[name] > 0:
                self.first[name] -= 1
                return method(*args, **options)
            if name not in self.before:
                method(*args, **options)
            self.lost[name] += 1
            raise OUT_OF_REACH

        return call

    def answer(self) -> None:
        """Let all calls come through again."""
        self.before.clear()
        self.behind.clear()


class Struck(Wrapped):
    """A connection of which one call meets a fate: the nth call from now that a request makes.

    A piece of lines is a call, and so is an append in turn.
    """

    def __init__(self, inner: SessionDatabase, fate: Fate | None = None) -> None:
        super().__init__(inner)
        self.fate = fate
        self._guard = threading.Lock()
        self.session_id = ""
        self.left = 0
        """Number of calls up to the one that is struck; none is struck below 1."""
        self.losses = 0
        """Number of calls from now that are lost."""

    def __getattr__(self, name: str) -> Any:
        return self.counted(name, super().__getattr__(name))

    def counted(self, name: str, method: Any) -> Any:
        """Return what does as a method does, and counts its calls."""
        if name in _BESIDE or not callable(method):
            return method
        return lambda *args, **options: self.meet(lambda: method(*args, **options))

    def meet(self, call: Callable[[], Any]) -> Any:
        """Make a call, unless the call is lost or struck."""
        with self._guard:
            self.left -= 1
            is_struck, is_lost = self.left == 0, self.losses > 0
            self.losses -= is_lost
        if is_struck and self.fate is not None:
            return self.fate(self.inner, self.session_id, call)
        if is_lost:
            raise OUT_OF_REACH
        return call()

    @property
    def company(self) -> Any:
        """The tables of signals and presence, whose calls count, too."""
        return _Company(self.inner.company, self)

    def pieces(self, *args: Any, **options: Any) -> Generator[bytes]:
        """Yield pieces, each of which is a call."""
        with closing(self.inner.pieces(*args, **options)) as pieces:
            while piece := self.meet(lambda: next(pieces, b"")):
                yield piece

    def hold(self, at: Any) -> Any:
        """Hold a row, until the connection ends at the latest."""
        held: list[Any] = []

        def hold() -> Any:
            held.append(self.inner.hold(at))
            return held[0]

        try:
            return None if self.meet(hold) is None else _Turn(held[0], self)
        except StorageError:
            for one in filter(None, held):
                one.release()
            raise


class _Company(Wrapped):
    """The tables of a connection of which one call meets a fate."""

    def __init__(self, inner: Any, connection: Struck) -> None:
        super().__init__(inner)
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return self._connection.counted(name, super().__getattr__(name))


class _Turn(Wrapped):
    """A held row whose append may meet a fate."""

    def __init__(self, inner: Any, connection: Struck) -> None:
        super().__init__(inner)
        self._row = inner
        self._connection = connection

    def send(self, *args: Any, **options: Any) -> MemorySent:
        """Begin an append, which ends the turn."""
        sent: Any = self._row.send(*args, **options)

        def stored() -> Any:
            try:
                return self._connection.meet(sent.stored)
            finally:
                self._row.release()

        return MemorySent(stored)


class Hearing(Wrapped):
    """A connection of a daemon that hears beats of other daemons, and the clock of their silence.

    The clock goes as a test says, so no processor that is busy elsewhere makes a daemon silent.
    """

    _LIMIT = 2.0

    def __init__(self, inner: SessionDatabase) -> None:
        super().__init__(inner)
        self.silence = Silence(self._LIMIT, self._time)
        self.runs = False
        """True to let half the time that ends a daemon pass at each question for beats."""
        self._seconds = 0.0
        self._heard: dict[str, int] = {}
        self._own_name = ""

    def _time(self) -> float:
        if self.runs:
            self._seconds += self._LIMIT / 2
        return self._seconds

    def beat(self, daemon: str, open_numbers: Collection[int]) -> None:
        """Note that the daemon goes on."""
        self._own_name = daemon
        self.inner.beat(daemon, open_numbers)

    def beats(self) -> dict[str, int]:
        """Return the number of beats of each daemon."""
        found = self.inner.beats()
        self._heard = {name: count for name, count in found.items() if name != self._own_name}
        return found

    async def let_pass(self) -> None:
        """Let as much time pass as ends a daemon twice, while each other daemon beats."""
        for _ in range(4):
            before, self._seconds = self._heard, self._seconds + self._LIMIT / 2
            # No event tells of a beat.
            await eventually(partial(self._has_heard_since, before))

    def _has_heard_since(self, before: dict[str, int]) -> bool:
        return self._heard != before
