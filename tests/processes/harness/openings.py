"""Openings of one session, again and again, and what they leave in the memory of a daemon."""

from __future__ import annotations

from typing import Final

from tests.kit.link import Link
from tests.kit.sessions import SESSION, entry
from tests.processes.harness.daemon import Daemon

__all__ = ["GROWN_BYTES_MAX", "grown_by_openings"]

_TOGETHER: Final = 500
_APPENDS: Final = 40
_FIRST: Final = 10
_TIMES: Final = 40
# What wait for the next search for cycles; an opening takes some 4 MB, and all of them 160 MB.
GROWN_BYTES_MAX: Final = 48 << 20


def grown_by_openings(daemon: Daemon, link: Link) -> int:
    """Return the bytes by which a daemon has grown behind many openings of a session of 20,000 entries."""
    link.create()
    for number in range(_APPENDS):
        said = [entry(f"entry-{number:04}-{at:04}", "said") for at in range(_TOGETHER)]
        link.ask("append", session_id=SESSION, entries=said)
    link.ask("session/close", session_id=SESSION)
    sizes: list[int] = []
    # The first openings make what stays, such as the copy of the lines and the index.
    for times in (_FIRST, _TIMES):
        for _ in range(times):
            answer = link.ask("session/get", session_id=SESSION)
            assert answer["session"]["seq"] == _APPENDS * _TOGETHER
            link.ask("session/close", session_id=SESSION)
        sizes.append(daemon.memory("VmRSS"))
    return sizes[1] - sizes[0]
