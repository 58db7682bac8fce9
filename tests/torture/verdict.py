"""The verdict on a round: the proof that all logged answers agree with the files.

Law: this module takes logs and bytes, and knows no daemon, no process and no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.torture.lease_law import lease_faults
from tests.torture.order import Windows, order_faults
from tests.torture.promises import place
from tests.torture.reads import After, questions, replayed
from tests.torture.records import Record
from tests.torture.replay import Replay, read_rows
from tests.torture.signal_law import signal_faults
from tests.torture.story import stories
from tests.torture.views import view_faults

__all__ = ["verdict"]


def verdict(logs: Iterable[Iterable[Record]], files: Mapping[str, bytes]) -> list[str]:
    """Return all faults in words; none if logs and files agree."""
    told, killed, found = stories(logs, files)
    did: dict[str, list[After]] = {}
    for session, story in told.items():
        rows, faults = read_rows(files[session])
        faults += place(story, rows)
        windows = Windows(story, len(rows))
        faults += order_faults(story, windows)
        did[session], wrong = replayed(Replay(rows, story.foreign), questions(story, windows))
        faults += wrong
        faults += view_faults(story, rows, did[session])
        faults += signal_faults(story)
        found += [f"{session}: {fault}" for fault in faults]
    return found + lease_faults(list(told.values()), did, killed)
