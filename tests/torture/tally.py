"""The tally of a round: counts from the logs, for people and for scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.torture.records import (
    Answered,
    Asked,
    Closed,
    Connected,
    Heard,
    Killed,
    Lagged,
    Lost,
    Record,
    Refused,
    Seen,
    Wrote,
)

__all__ = ["Tally"]


class Tally:
    """Counts by a few words; rounds are added up."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, log: Iterable[Record]) -> None:
        """Add the log of one actor."""
        methods: dict[tuple[str, int], str] = {}
        actor_connections = 0
        for record in log:
            for word in self._words(record, methods):
                self.counts[word] += 1
            actor_connections += isinstance(record, Connected) and record.kind == "raw"
        self.counts["reconnects"] += max(0, actor_connections - 1)

    @staticmethod
    def _words(record: Record, methods: dict[tuple[str, int], str]) -> tuple[str, ...]:
        match record:
            case Asked():
                method = record.act.method.removeprefix("session/")
                methods[record.conn, record.n] = method
                return ("operations", f"asked {method}")
            case Answered():
                again = ("duplicates",) if record.sight.get("duplicate") else ()
                return ("answered", f"answered {methods[record.conn, record.n]}", *again)
            case Refused():
                return ("refused", f"refused {record.kind}")
            case Killed():
                who = "daemon" if record.who == "daemon" else "client"
                return (f"{who} {record.how}s",)
            case Closed(conn="proxy", reason="cut"):
                return ("cut connections",)
            case Seen(external=True):
                return ("events", "external events")
            case _:
                word = _PLAIN.get(type(record))
                return (word,) if word else ()

    def report(self) -> str:
        """Return a line for each kind."""
        main = [word for word in self.counts if " " not in word or word.split()[0] not in _DETAILS]
        details = {
            kind: ", ".join(
                f"{word.removeprefix(kind + ' ')} {count}"
                for word, count in sorted(self.counts.items())
                if word.startswith(kind + " ")
            )
            for kind in _DETAILS
        }
        lines = [f"{word:16}{self.counts[word]:>9}" for word in sorted(main)]
        lines += [f"{kind:16}{text}" for kind, text in details.items() if text]
        return "\n".join(lines) + "\n"


_DETAILS = ("answered", "refused")
_PLAIN: dict[type, str] = {
    Lost: "lost answers",
    Seen: "events",
    Wrote: "foreign lines",
    Heard: "signals",
    Lagged: "lags",
}
