"""The law of subscriptions: the file's entries from the cursor on, without gap or duplicate."""

from __future__ import annotations

from itertools import pairwise

from tests.torture.reads import After
from tests.torture.records import Closed, Flushed, Lagged, Seen, Synced, Watching
from tests.torture.replay import Row
from tests.torture.story import Story

__all__ = ["view_faults"]

_ALWAYS = frozenset({"label", "session_info"})


def view_faults(story: Story, rows: list[Row], after: list[After]) -> list[str]:
    """Return the wrong, duplicate and missing notifications of all subscriptions."""
    found: list[str] = []
    epochs = {
        one.epoch
        for told in story.told.values()
        for one in told
        if isinstance(one, Seen | Watching) and one.epoch
    }
    if len(epochs) > 1:
        found.append(f"{story.session} had {len(epochs)} epochs")
    for conn, told in story.told.items():
        view = _View(story, rows, after, conn)
        found += [f"{conn}: {fault}" for one in told for fault in view.take(one)]
    return found


class _View:
    """The subscriptions of one connection, one after the other."""

    def __init__(self, story: Story, rows: list[Row], after: list[After], conn: str) -> None:
        self._foreign = story.foreign
        self._rows = rows
        self._after = after
        self._is_library = story.kinds[conn] == "library"
        self._watching: Watching | None = None
        self._at = 0
        """The seq up to which the subscription has seen all entries that pass its filters."""
        self._replaying = False

    def take(self, one: object) -> list[str]:
        match one:
            case Watching():
                return self._begin(one)
            case Closed():
                self._watching = None
                return []
            case Seen() if self._watching is None:
                return [f"saw {one.seq} without a subscription"]
            case Seen():
                return self._event(one)
            case Synced():
                return self._synced(one)
            case Lagged():
                self._replaying = True
                return self._caught_up(one.seq, "lagged")
            case Flushed():
                return self._caught_up(one.seq, "flushed")
            case _:
                return []

    def _begin(self, watching: Watching) -> list[str]:
        self._watching = watching
        found = []
        if watching.replaced is not None:
            found.append(f"its cursor {watching.after} was refused: {watching.replaced}")
        if watching.seq > len(self._rows):
            found.append(f"was told of {watching.seq} lines")
        self._at = watching.seq if watching.after is None else watching.after
        self._replaying = watching.after is not None
        return found

    def _event(self, seen: Seen) -> list[str]:
        if seen.seq <= self._at:
            return [f"saw {seen.seq} again or too late"]
        found = self._missed(seen.seq - 1, "before it saw more")
        self._at = seen.seq
        if seen.seq > len(self._rows):
            return [*found, f"saw {seen.seq}, which is not stored"]
        row, after = self._rows[seen.seq - 1], self._after[seen.seq]
        if (row.id, row.digest) != (seen.id, seen.digest):
            found.append(f"saw another entry at {seen.seq} than is stored")
        if not self._passes(row):
            found.append(f"saw {seen.seq}, which its filters hold back")
        found += self._whose(seen)
        is_drop = row.type == "leaf" and row.text("reason") == "drop"
        if not is_drop and (seen.head, seen.leaf) != (after.head, after.leaf_id):
            found.append(f"was told at {seen.seq} that {seen.head} is at {seen.leaf}")
        return found

    def _whose(self, seen: Seen) -> list[str]:
        """Check `external` of an event; only an event that a library replayed may lack it."""
        is_foreign = seen.seq in self._foreign
        if seen.external and not is_foreign:
            return [f"was told that {seen.seq} is another program's"]
        if is_foreign and not (seen.external or self._replaying or self._is_library):
            return [f"was not told that {seen.seq} is another program's"]
        return []

    def _synced(self, synced: Synced) -> list[str]:
        found = self._caught_up(synced.seq, "synced")
        if not self._replaying and not self._is_library:
            found.append(f"was synced at {synced.seq} without a replay")
        self._replaying = False
        return found

    def _caught_up(self, seq: int, word: str) -> list[str]:
        if self._watching is None:
            return [f"was {word} without a subscription"]
        if seq > len(self._rows):
            return [f"was {word} at {seq}, which is not stored"]
        if seq < self._at and not self._is_library:
            return [f"was {word} at {seq} behind {self._at}"]
        found = self._missed(seq, f"before it was {word}")
        self._at = max(self._at, seq)
        return found

    def _missed(self, last: int, when: str) -> list[str]:
        missed = [row.seq for row in self._rows[self._at : last] if self._passes(row)]
        if not missed:
            return []
        ends = [missed[0], *(b for a, b in pairwise(missed) if b != a + 1)]
        return [f"missed {len(missed)} from {ends[0]} on {when}"]

    def _passes(self, row: Row) -> bool:
        watching = self._watching
        assert watching is not None
        if not row.is_entry:
            return False
        if watching.types is not None and row.type not in watching.types:
            return False
        return watching.heads is None or row.type in _ALWAYS or row.head in watching.heads
