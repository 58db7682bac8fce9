"""Clients in a process that was forked from the one that made them.

Law: a child sends, reads and ends nothing on a connection of its parent, and repeats no call of the parent. No
client moves while a process forks, so what the child has of a client is whole.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack
from threading import RLock
from typing import Any, Protocol
from weakref import ref

__all__ = ["Forked", "look_for_forks"]


class Forked(Protocol):
    """Holder of connections, which lets them go in a child."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock that is held while this moves."""
        ...

    def leave_to_parent(self) -> None:
        """Let go of the connection and the calls of the parent, without a word on it."""


_turn = RLock()
"""The turn of a thread that forks."""
_known: dict[int, ref[Forked]] = {}
_held = ExitStack()
"""Locks of all clients while a process forks."""


def look_for_forks(forked: Forked) -> None:
    """Let a child of this process let go of what this holds."""
    number = id(forked)
    _known[number] = ref(forked, lambda _: _known.pop(number, None))


def _all() -> list[Forked]:
    # No other thread changes a dictionary inside a call of `tuple`.
    return [one for known in tuple(_known.values()) if (one := known()) is not None]


def _hold_all() -> None:
    _turn.acquire()
    for lock in {id(one.lock): one.lock for one in _all()}.values():
        _held.enter_context(lock)


def _go_on() -> None:
    _held.close()
    _turn.release()


def _leave_all_to_parent() -> None:
    try:
        for one in _all():
            one.leave_to_parent()
    finally:
        _go_on()


os.register_at_fork(before=_hold_all, after_in_parent=_go_on, after_in_child=_leave_all_to_parent)
