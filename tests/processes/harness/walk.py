"""A session on its way through the documented usage of a program, with a real daemon and its client.

Law: a walk is a row of stages. After each stage the program's second reader finds in every file of the
walk what the daemon answers, and one subscriber, who stays over restarts, was told each entry once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest

from sessiond_client import (
    Asked,
    BlockingClient,
    BlockingSubscription,
    EntryEvent,
    Flushed,
    Replaced,
    RpcError,
    connect_blocking,
)
from sessiond_client.options import Hook, Purpose
from sessiond_client.results import Appended, SessionInfo
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import Daemon
from tests.processes.harness.program import Program, Seen

__all__ = ["PATIENT", "Walk"]

Json = Any
PATIENT: Final[dict[str, Any]] = {"timeout": PATIENCE_SECONDS, "connect_timeout": PATIENCE_SECONDS}


class Walk:
    """A daemon, a client of it, the session that the walk is about, and the copies made of it.

    `root` is the folder of the program's own files, None if the session is a native one.
    """

    def __init__(
        self,
        daemon: Daemon,
        client: BlockingClient,
        program: Program,
        folder: Path,
        *,
        native: bool,
    ) -> None:
        self.daemon = daemon
        self.client = client
        self.program = program
        self.folder = folder
        self.root = None if native else folder
        self.session_id = ""
        self.ids: dict[str, str] = {}
        """Entries by the names that stages gave them."""
        self.told: list[EntryEvent] = []
        self._events: BlockingSubscription | None = None
        self._stored: dict[str, tuple[bytes, int]] = {}
        """Content of each file of the walk at the last look, and the daemon's process then."""

    # -- the session

    def begin(self, session: SessionInfo) -> None:
        """Walk with a session from here on, which one subscriber watches from its first entry."""
        self.end()
        self.session_id, self.told = session.id, []
        self._events = self.client.subscribe(session.id, after=0)
        self._events.__enter__()
        self.follow(session)

    def follow(self, session: SessionInfo) -> None:
        """Look after every stage at one session more."""
        self._stored[session.id] = b"", 0

    def leave(self, session_id: str) -> None:
        """Look at a session no more."""
        del self._stored[session_id]

    def end(self) -> None:
        """End the subscription."""
        if self._events is not None:
            self._events.close()

    def say(self, name: str, message: Json, **options: Any) -> Appended:
        """Append a message, and remember its entry under a name."""
        return self.add(name, {"type": "message", "message": message}, **options)

    def add(self, name: str, entry: Json, **options: Any) -> Appended:
        """Append an entry, and remember the entry under a name."""
        stored = self.client.append(self.session_id, entries=[entry], **options)
        self.ids[name] = stored.entries[0].id
        return stored

    @property
    def place(self) -> dict[str, Json]:
        """Options of a creation that put the session among the program's own files."""
        return {} if self.root is None else {"root": str(self.root)}

    @property
    def info(self) -> SessionInfo:
        """The session as the daemon shows it."""
        return self.client.get(self.session_id)

    def file(self, session_id: str | None = None) -> Path:
        """Return the file of a session of the walk."""
        path = self.client.get(session_id or self.session_id).path
        assert path is not None
        return Path(path)

    def texts(self, session_id: str | None = None) -> list[str]:
        """Return the texts of a context, as a provider of models would get them."""
        built = self.client.build_context(session_id or self.session_id, shape="openai")
        return [text_of(message["content"]) for message in built.messages]

    @contextmanager
    def refused(self, kind: str) -> Iterator[dict[str, Any]]:
        """Require that the block is refused; the members of the error are there behind the block."""
        data: dict[str, Any] = {}
        with pytest.raises(RpcError) as refusal:
            yield data
        assert refusal.value.kind == kind, refusal.value
        data |= refusal.value.data

    # -- further clients

    def another(self, client_id: str) -> BlockingClient:
        """Return another client of the daemon, to be used in a `with`."""
        return connect_blocking(self.daemon.socket_path, client_id=client_id, **PATIENT)

    @contextmanager
    def offering(
        self,
        answer: Callable[[Asked], None],
        *,
        summarize: Sequence[Purpose] = (),
        hooks: Sequence[Hook] = (),
    ) -> Iterator[None]:
        """Have a client answer what the daemon asks, inside the block."""
        is_ready = Event()

        def serve(helper: BlockingClient) -> None:
            with helper.offer(summarize=summarize, hooks=hooks) as offer:
                is_ready.set()
                for asked in offer:
                    with asked:
                        answer(asked)

        with self.another("helper") as helper, ThreadPoolExecutor(1) as pool:
            served = pool.submit(serve, helper)
            try:
                assert is_ready.wait(PATIENCE_SECONDS)
                yield
            finally:
                helper.disconnect()
            served.exception(PATIENCE_SECONDS)

    # -- what holds after every stage

    def agree(self) -> None:
        """Check that the second reader and the subscriber know what the daemon answers."""
        for session_id in self._stored:
            info = self.client.get(session_id)
            assert info.problems == 0
            if info.path is not None:
                self._agree(info, Path(info.path))
        if self._events is not None:
            self._hear(self._events)

    def _agree(self, info: SessionInfo, path: Path) -> None:
        data, (before, pid) = path.read_bytes(), self._stored[info.id]
        assert data.startswith(before), "what is stored is never rewritten"
        self._stored[info.id] = data, self.daemon.pid
        if self._stored[info.id] == (before, pid):
            return
        if info.dialect == self.program.name:
            self._compare(info, self.program.see(data))
            return
        # A native file: the program reads the export, and sees the conversation of the session.
        exported = self.folder.with_name(f"{info.id}-exported.jsonl")
        exported.unlink(missing_ok=True)
        self.client.export(info.id, format=self.program.name, path=str(exported))
        copy = self.client.open(path=str(exported))
        self._compare(copy, self.program.see(exported.read_bytes()))
        theirs, ours = self._told_by_both(copy.id), self._told_by_both(info.id)
        assert [one for one in theirs if one not in ours] == []
        assert theirs == ours
        self.client.forget(copy.id)

    def _told_by_both(self, session_id: str) -> list[str]:
        """Return the texts of a context without those that only one of the two dialects shows."""
        stored = self.client.build_context(session_id)
        shaped = self.client.build_context(session_id, shape="openai")
        pairs = zip(stored.sources, stored.messages, strict=True)
        unlike = {source for source, one in pairs if one["role"] in self.program.unlike}
        told = zip(shaped.sources, shaped.messages, strict=True)
        return [text_of(one["content"]) for source, one in told if source not in unlike]

    def _compare(self, info: SessionInfo, seen: Seen) -> None:
        """Check that the daemon says of a file what the program sees in the file."""
        built = self.client.build_context(info.id)
        labels = {one.entry_id: one.label for one in self.client.labels(info.id).labels}
        facts = {
            "title": info.title,
            "labels": labels,
            "thinking_level": built.thinking_level,
            "model": built.model,
        }
        assert [self.program.spell(one) for one in built.messages] == seen.context
        assert {name: facts[name] for name in seen.facts} == seen.facts
        assert info.leaf_id == seen.leaf

    def _hear(self, events: BlockingSubscription) -> None:
        """Check that the subscriber was told every entry up to now, each once and in order."""
        seq = self.info.seq
        assert seq is not None
        events.request_flush()
        for event in events:
            assert not isinstance(event, Replaced), event
            if isinstance(event, EntryEvent):
                self.told.append(event)
            if isinstance(event, Flushed):
                break
        assert [one.seq for one in self.told] == list(range(1, seq + 1))


def text_of(content: Json) -> str:
    """Return the text of a message in a provider's shape."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(block.get("text", "") for block in content)
