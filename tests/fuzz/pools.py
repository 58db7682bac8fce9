"""The values that a walk has seen so far, by parameter name, so that most parameters make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

__all__ = ["Pools"]

_PROMPTS: Final = ["p1", "p2", "p3"]
"""Ids of prompts that wait, and of the entries that take them."""


class Pools:
    """The seen values by parameter name, newest last, with a bound for each name."""

    def __init__(self, folder: Path) -> None:
        self.sessions: list[str] = []
        self.entries: list[str] = []
        self.heads: list[str] = ["main", "agents/one", "two"]
        self.leases: list[str] = []
        self.cursors: list[str] = []
        self.etags: list[str] = []
        self.epochs: list[str] = []
        self.paths: list[str] = [
            *("../../etc/passwd", "relative", "/dev/zero", "/proc/self/mem", "/", "", "/a\0b"),
            *("/" + "a/" * 3000, str(folder), *map(str, sorted(folder.iterdir()))),
            *(str(folder / "new.jsonl"), str(folder / "no" / "where"), str(folder / ".." / "x")),
        ]

    def of(self, name: str) -> list[str]:
        """Return the values for a parameter of this name."""
        return {
            "session_id": self.sessions,
            "ref": [*self.sessions, *(one[:5] for one in self.sessions)],
            "root": self.sessions,
            "entry_id": self.entries,
            "parent_id": self.entries,
            "target_id": self.entries,
            "first_kept_entry_id": self.entries,
            "from_id": self.entries,
            "leaf_id": self.entries,
            "to": self.entries,
            "queue_id": _PROMPTS,
            "done": _PROMPTS,
            "id": [
                *self.entries[-3:],
                *_PROMPTS,
                *(f"new-{len(self.entries)}-{n}" for n in range(20)),
            ],
            "head": self.heads,
            "heads": self.heads,
            "lease_id": self.leases,
            "cursor": self.cursors,
            "if_none_match": self.etags,
            "epoch": self.epochs,
            "path": self.paths,
            "cwd": ["/p", "/p", "/q", "relative", "/p/../q"],
            "namespace": ["settings", "settings", "api", "../x", "A", ""],
            "key": ["a", "a", "b", "/home/p", "../x", "a\\b", ""],
            "role": ["user", "assistant", "tool", "system", "toolResult"],
            "type": ["message", "custom", "label", "session_info", "leaf", "zz", "compaction"],
            "types": ["message", "custom", "label", "session_info", "leaf", "zz"],
        }.get(name, [])

    def learn(self, value: Any, name: str = "") -> None:
        """Take in what an answer names."""
        if isinstance(value, dict):
            for inner, part in value.items():
                self.learn(part, inner)
            if "dialect" in value and isinstance(value.get("id"), str):
                self._add(self.sessions, value["id"])
            elif "seq" in value and isinstance(value.get("id"), str):
                self._add(self.entries, value["id"])
        elif isinstance(value, list):
            for part in value[:50]:
                self.learn(part, name)
        elif isinstance(value, str):
            places = {"lease_id": self.leases, "next_cursor": self.cursors, "etag": self.etags}
            places |= {"epoch": self.epochs, "leaf_id": self.entries, "head": self.heads}
            if name in places:
                self._add(places[name], value)

    @staticmethod
    def _add(pool: list[str], value: str) -> None:
        if value in pool:
            pool.remove(value)
        pool.append(value)
        del pool[:-40]
