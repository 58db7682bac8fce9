"""Sessions as they should be: what one request makes of one, in plain Python.

Law: it knows no daemon, no file and no time. A request either changes the session and
gives None, or leaves it as it is and gives the kind of the error.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from tests.kit.remembered import Remembered

__all__ = ["Imagined", "Request", "Seen"]

Place = Literal["sessions", "archive", "pending", "memory"]
_PLACES: Final[dict[str, Place]] = {
    "immediate": "sessions",
    "on_assistant": "pending",
    "never": "memory",
}

Request = tuple[str, dict[str, Any]]
_WORK: Final = ("session/artifact", "session/decide", "session/prune", "session/task")


@dataclass(frozen=True)
class Seen:
    """The comparable part of an existing session."""

    place: str
    title: str | None
    tags: tuple[str, ...]
    path: tuple[str, ...]
    nodes: int
    labels: tuple[tuple[str, str], ...]
    state: dict[str, Any]


@dataclass
class Imagined:
    """The model of a session id: the session that has the id now, and its trash."""

    place: Place | None = None
    trashed: int = 0
    title: str | None = None
    tags: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    remembered: Remembered = field(default_factory=Remembered)
    changes: int = 0
    """Number of the entries that changed the working state."""

    @property
    def seen(self) -> Seen | None:
        """Return what a client and the folders show of the session; None if there is none."""
        if self.place is None:
            return None
        labels = tuple((node, self.labels[node]) for node in self.nodes if node in self.labels)
        nodes = len(self.nodes) + self.changes
        state = self.remembered.state()
        return Seen(self.place, self.title, self.tags, self.path, nodes, labels, state)

    @property
    def waiting(self) -> list[str]:
        """Return the ids of the prompts that wait, in the order in which to take them."""
        return self.remembered.waiting(self.nodes)

    def after(self, request: Request) -> tuple[Imagined, str | None]:
        """Return the model after a request, and the kind of the refusal or None."""
        method, params = request
        changed = deepcopy(self)
        if method in _WORK:
            refusal = changed._work(method, params)
        else:
            refusal = getattr(changed, "_" + method.replace("/", "_"))(params)
        return (self, refusal) if refusal else (changed, None)

    def after_kill(self) -> Imagined:
        """Return the model after the daemon was killed."""
        return Imagined(trashed=self.trashed) if self.place == "memory" else self

    def may_wait(self, waiting: list[str], sure: Collection[str]) -> bool:
        """Return whether these prompts may wait: the sure ones that are not taken do, in order."""
        mine = self.waiting
        return waiting == [one for one in mine if one in waiting or one in sure]

    def after_look(self, waiting: list[str]) -> Imagined:
        """Return the model without the prompts that neither wait nor are taken."""
        seen = deepcopy(self)
        for prompt_id in set(self.waiting).difference(waiting):
            del seen.remembered.prompts[prompt_id]
        return seen

    def _session_create(self, params: dict[str, Any]) -> str | None:
        if self.place is not None:
            return "session_exists"
        place = _PLACES[params["persist"]]
        fresh = Imagined(place, self.trashed, params["title"], tuple(params["tags"]))
        self.__dict__.update(fresh.__dict__)
        return None

    def _append(self, params: dict[str, Any]) -> str | None:
        if refusal := self._refusal():
            return refusal
        entry = params["entry"]
        self.path += (entry["id"],)
        self.nodes += (entry["id"],)
        if entry["message"]["role"] == "assistant" and self.place == "pending":
            self.place = "sessions"
        return None

    def _work(self, method: str, params: dict[str, Any]) -> str | None:
        if refusal := self._refusal():
            return refusal
        made = self.remembered.after(method, params)
        self.changes += made
        if made and self.place == "pending":
            self.place = "sessions"
        return None

    def _session_signal(self, params: dict[str, Any]) -> str | None:
        if self.place is None:
            return "session_not_found"
        if params["queue_id"] not in self.nodes:
            self.remembered.prompts.setdefault(params["queue_id"], params["kind"])
        return None

    def _session_update(self, params: dict[str, Any]) -> str | None:
        if refusal := self._refusal():
            return refusal
        self.title = params.get("title", self.title)
        self.tags = tuple(params.get("tags", self.tags))
        if "persist" in params:
            self.place = "sessions"
        return None

    def _session_label(self, params: dict[str, Any]) -> str | None:
        if refusal := self._refusal():
            return refusal
        if params["entry_id"] not in self.nodes:
            return "entry_not_found"
        if params["label"] is None:
            self.labels.pop(params["entry_id"], None)
        else:
            self.labels[params["entry_id"]] = params["label"]
        return None

    def _session_rewind(self, params: dict[str, Any]) -> str | None:
        if refusal := self._refusal():
            return refusal
        to = params["to"]
        if to is not None and to not in self.nodes:
            return "entry_not_found"
        if to is not None and to not in self.path:
            return "entry_invalid"
        self.path = () if to is None else self.path[: self.path.index(to) + 1]
        return None

    def _session_archive(self, _params: dict[str, Any]) -> str | None:
        if self.place is None:
            return "session_not_found"
        if self.place == "memory":
            return "invalid_params"
        self.place = "archive"
        return None

    def _session_unarchive(self, _params: dict[str, Any]) -> str | None:
        if self.place is None:
            return "session_not_found"
        if self.place == "archive":
            self.place = "sessions"
        return None

    def _session_delete(self, _params: dict[str, Any]) -> str | None:
        if self.place is None:
            return None if self.trashed else "session_not_found"
        trashed = self.trashed + (self.place != "memory")
        self.__dict__.update(Imagined(trashed=trashed).__dict__)
        return None

    def _session_purge(self, _params: dict[str, Any]) -> str | None:
        if self.place is not None:
            return "session_exists"
        if not self.trashed:
            return "session_not_found"
        self.trashed = 0
        return None

    def _session_close(self, _params: dict[str, Any]) -> str | None:
        return None

    def _refusal(self) -> str | None:
        if self.place is None:
            return "session_not_found"
        return "session_archived" if self.place == "archive" else None
