"""Connections of a daemon to its database, which a test holds, cuts or watches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from sessiond.errors import StorageError
from sessiond.service.database.database import SessionDatabase
from sessiond.service.database.silence import Silence
from sessiond.testing.database import MemorySent
from tests.kit.patience import PATIENCE_SECONDS, eventually

OUT_OF_REACH = StorageError("the connection ended", errno="EIO", path="", retryable=True)


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
