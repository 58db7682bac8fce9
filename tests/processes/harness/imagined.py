"""Sessions as they should be: what one request makes of one, in plain Python.

Law: it knows no daemon, no file and no time. A request either changes the session and
gives None, or leaves it as it is and gives the kind of the error.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["Imagined", "Request", "Seen"]

Place = Literal["sessions", "archive", "pending", "memory"]
_PLACES: Final[dict[str, Place]] = {
    "immediate": "sessions",
    "on_assistant": "pending",
    "never": "memory",
}

Request = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Seen:
    """The comparable part of an existing session."""

    place: str
    title: str | None
    tags: tuple[str, ...]
    path: tuple[str, ...]
    nodes: int
    labels: tuple[tuple[str, str], ...]


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

    @property
    def seen(self) -> Seen | None:
        """Return what a client and the folders show of the session; None if there is none."""
        if self.place is None:
            return None
        labels = tuple((node, self.labels[node]) for node in self.nodes if node in self.labels)
        return Seen(self.place, self.title, self.tags, self.path, len(self.nodes), labels)

    def after(self, request: Request) -> tuple[Imagined, str | None]:
        """Return the model after a request, and the kind of the refusal or None."""
        method, params = request
        changed = deepcopy(self)
        refusal: str | None = getattr(changed, "_" + method.replace("/", "_"))(params)
        return (self, refusal) if refusal else (changed, None)

    def after_kill(self) -> Imagined:
        """Return the model after the daemon was killed."""
        return Imagined(trashed=self.trashed) if self.place == "memory" else self

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
