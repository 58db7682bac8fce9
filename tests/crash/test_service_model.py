"""Random requests to a daemon in random order, with disk failures and power cuts.

Law: the model consists of the answers. After any power cut every acknowledged entry is there
once, in its place. A refused call has left no entries, except that all entries of the call may
appear if the power went before the session was asked again. Users' files beside sessions stay
unchanged.
"""

from __future__ import annotations

import errno
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest
from anyio import to_thread
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct

from sessiond.service.files.startup_cleanup import remove_half_made, settle_drafts, settle_notes
from sessiond.testing.daemon import Daemon, Refusal, Wire
from sessiond.testing.disk import FaultDisk
from tests.crash.harness.bystanders import ENDINGS, Bystanders
from tests.kit.house import House
from tests.kit.limits import set_limits

R = TypeVar("R")

# The number of the failing call, and how many of its bytes get through. An append makes two calls.
PARTIAL = st.sampled_from([0, 30, 200, 10_000])
FAULTS = st.none() | st.tuples(st.integers(1, 3), PARTIAL) | st.tuples(st.integers(1, 25), PARTIAL)
WHICH = st.integers(0, 1000)
SESSIONS_MAX = 6
# Times that clients give to entries; None: the daemon sets the time.
TIMES = st.sampled_from([None, "2020-05-01T00:00:00Z", "2031-01-01T00:00:00+01:00"])


class Known(Struct):
    """A session as its clients know it: its entries, and what was refused and may be found."""

    ids: list[str]
    refused: list[list[str]]
    archived: bool = False
    in_memory: bool = False
    gone: bool | None = False
    """True if the session was deleted; None if the deletion was refused."""


class Life(RuleBasedStateMachine):
    """A home that outlives many daemons and power cuts."""

    keeps_indexes = False
    """True if sessions are opened from kept indexes wherever these fit, not by a replay of the file."""

    def __init__(self) -> None:
        super().__init__()
        self.at_end = ExitStack()
        folder = tempfile.mkdtemp(prefix="sessiond-model-")
        self.at_end.callback(shutil.rmtree, folder)
        if self.keeps_indexes:
            patch = pytest.MonkeyPatch()
            self.at_end.callback(patch.undo)
            set_limits(patch, KEPT_INDEX_ENTRIES=1)
        self.house = House(Path(folder), FaultDisk(folder))
        self.portal = self.at_end.enter_context(start_blocking_portal("asyncio"))
        self.sessions: dict[str, Known] = {}
        self.numbers = 0
        self.bystanders = Bystanders()
        self.start()

    def teardown(self) -> None:
        """Check every session once more; check that all files are closed and none is unfinished."""
        try:
            try:
                if sys.exc_info()[0] is None:
                    self.restart()
            finally:
                self.life.close()
            assert self.house.disk.open_descriptors == 0
            left = {path for path in self.house.disk.paths if path.suffix == ".new"}
            assert left <= set(self.bystanders.contents)
        finally:
            self.at_end.close()

    # -- the daemon ------------------------------------------------------------------------

    def start(self) -> None:
        self.life = life = ExitStack()
        running = self.portal.wrap_async_context_manager(self.house.daemon())
        daemon: Daemon = life.enter_context(running)
        self.run(_tidy, daemon)
        connected = self.portal.wrap_async_context_manager(daemon.connect())
        self.wire: Wire = life.enter_context(connected)

    def run(self, work: Callable[..., Awaitable[R]], *arguments: Any) -> R:
        return self.portal.call(work, *arguments)

    def ask(self, method: str, **params: Any) -> Any:
        return self.run(_call, self.wire, method, params)

    def attempt(
        self, fault: tuple[int, int] | None, *calls: tuple[str, dict[str, Any]]
    ) -> list[Any]:
        """Send calls at once and return their answers; None for a call that the disk refused."""
        if fault is not None:
            self.house.disk.fail(None, nth=fault[0], errno=errno.ENOSPC, partial=fault[1])
        answers = self.run(_pipelined, self.wire, calls)
        self.house.disk.heal()
        for answer in answers:
            if isinstance(answer, Refusal):
                assert fault is not None, answer
                assert answer.data["kind"] == "storage_error", answer
                assert answer.data["errno"] == "ENOSPC"
        return [None if isinstance(answer, Refusal) else answer for answer in answers]

    def new_id(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind}-{self.numbers:04d}"

    def pick(self, which: int, *, writable: bool = True) -> tuple[str, Known]:
        alive = [
            (session_id, known)
            for session_id, known in self.sessions.items()
            if known.gone is False and not (writable and known.archived)
        ]
        return alive[which % len(alive)]

    def any_alive(self) -> bool:
        return any(known.gone is False for known in self.sessions.values())

    def any_writable(self) -> bool:
        return any(k.gone is False and not k.archived for k in self.sessions.values())

    def stored(self, session_id: str) -> list[str]:
        page = self.ask("session/entries", session_id=session_id, limit=10_000)
        assert page["next_seq"] is None
        assert [row["seq"] for row in page["entries"]] == list(range(1, len(page["entries"]) + 1))
        return [row["entry"]["id"] for row in page["entries"]]

    def leaf_type(self, session_id: str) -> str | None:
        """Return the type of the entry at which `main` stands; None in front of the first entry."""
        leaf_id = self.ask("session/get", session_id=session_id)["session"]["leaf_id"]
        if leaf_id is None:
            return None
        found = self.ask("session/entry", session_id=session_id, entry_id=leaf_id)["entry"]["type"]
        return str(found)

    def settle(self, session_id: str, known: Known) -> None:
        """Check the stored ids after an answer; from then on refused entries cannot appear."""
        assert self.stored(session_id) == known.ids
        known.refused.clear()

    # -- what is asked ---------------------------------------------------------------------

    @precondition(lambda self: len(self.sessions) < SESSIONS_MAX)
    @rule(fault=FAULTS, persist=st.sampled_from(["on_assistant", "immediate", "never"]))
    def create(self, fault: tuple[int, int] | None, persist: str) -> None:
        session_id = self.new_id("session")
        params = {"cwd": "/p", "session_id": session_id, "persist": persist}
        (answer,) = self.attempt(fault, ("session/create", params))
        if answer is None:
            assert self.kind_of(session_id) == "session_not_found"
            (answer,) = self.attempt(None, ("session/create", params))
        assert answer["created"]
        self.sessions[session_id] = Known([], [], in_memory=persist == "never")

    @precondition(any_writable)
    @rule(
        which=WHICH,
        fault=FAULTS,
        sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        role=st.sampled_from(["user", "assistant"]),
        time=TIMES,
        again=st.booleans(),
    )
    def append(  # noqa: PLR0913 - what a rule draws
        self,
        which: int,
        fault: tuple[int, int] | None,
        sizes: list[int],
        role: str,
        time: str | None,
        again: bool,
    ) -> None:
        """Append several entries at once, in one batch or two; perhaps retry refused batches."""
        session_id, known = self.pick(which)
        batches = [[self.new_id("own") for _ in range(size)] for size in sizes]
        calls = [append(session_id, batch, role, time) for batch in batches]
        answers = self.attempt(fault, *calls)
        self.take(known, batches, answers)
        self.settle(session_id, known)
        for batch, call, answer in zip(batches, calls, answers, strict=True):
            if again or answer is not None:
                (repeated,) = self.attempt(None, call)
                assert repeated["duplicate"] is (answer is not None)
                if answer is None:
                    known.ids += batch
            else:
                known.refused.append(batch)
        assert self.stored(session_id) == known.ids

    def take(self, known: Known, batches: list[list[str]], answers: list[Any]) -> None:
        for batch, answer in zip(batches, answers, strict=True):
            if answer is not None:
                assert [entry["id"] for entry in answer["entries"]] == batch
                first = len(known.ids) + 1
                assert [entry["seq"] for entry in answer["entries"]] == list(
                    range(first, first + len(batch))
                )
                known.ids += batch

    @precondition(any_writable)
    @rule(
        which=WHICH, fault=FAULTS, method=st.sampled_from(["label", "update", "branch", "compact"])
    )
    def change(self, which: int, fault: tuple[int, int] | None, method: str) -> None:
        """Make a request for which the daemon stores an entry of its own."""
        session_id, known = self.pick(which)
        targets = [entry_id for entry_id in known.ids if entry_id.startswith("own")]
        params: dict[str, Any] = {"session_id": session_id, "title": "t"}
        if method != "update" and not targets:
            return
        if method == "label":
            params = {"session_id": session_id, "entry_id": targets[0], "label": "x"}
        elif method == "branch":
            head = ("main", "side")[which % 2]
            params = {"session_id": session_id, "entry_id": targets[-1], "head": head}
        elif method == "compact":
            # Right behind a compaction there is nothing to compact.
            if self.leaf_type(session_id) == "compaction":
                return
            params = {"session_id": session_id, "summary": "s", "first_kept_entry_id": None}
        (answer,) = self.attempt(fault, (f"session/{method}", params))
        now = self.stored(session_id)
        made = now[len(known.ids) :]
        assert now[: len(known.ids)] == known.ids
        assert len(made) <= (answer is not None)
        known.ids = now
        self.settle(session_id, known)

    @precondition(any_writable)
    @rule(which=WHICH, fault=FAULTS)
    def promote(self, which: int, fault: tuple[int, int] | None) -> None:
        session_id, known = self.pick(which)
        params = {"session_id": session_id, "persist": "immediate"}
        (answer,) = self.attempt(fault, ("session/update", params))
        if answer is not None:
            known.in_memory = False
            assert answer["session"]["persisted"]
        self.settle(session_id, known)

    @precondition(any_alive)
    @rule(which=WHICH, fault=FAULTS)
    def archive_or_back(self, which: int, fault: tuple[int, int] | None) -> None:
        session_id, known = self.pick(which, writable=False)
        if known.in_memory:
            return
        method = "session/unarchive" if known.archived else "session/archive"
        (answer,) = self.attempt(fault, (method, {"session_id": session_id}))
        if answer is not None:
            known.archived = not known.archived
        info = self.ask("session/get", session_id=session_id)["session"]
        assert info["archived"] is known.archived
        self.settle(session_id, known)

    @precondition(any_alive)
    @rule(which=WHICH, fault=FAULTS, look=st.booleans())
    def delete(self, which: int, fault: tuple[int, int] | None, look: bool) -> None:
        session_id, known = self.pick(which, writable=False)
        (answer,) = self.attempt(fault, ("session/delete", {"session_id": session_id}))
        if answer is not None:
            known.gone = True
            assert self.kind_of(session_id) == "session_not_found"
        elif known.in_memory or look:
            self.settle(session_id, known)
        else:
            # Only the next opening shows whether the file is back under its name.
            known.gone = None

    @precondition(any_alive)
    @rule(which=WHICH, fault=FAULTS)
    def close_and_open(self, which: int, fault: tuple[int, int] | None) -> None:
        session_id, known = self.pick(which, writable=False)
        if known.in_memory:
            return
        live = self.shown(session_id)
        self.ask("session/close", session_id=session_id)
        self.attempt(fault, ("session/open", {"session_id": session_id}))
        self.settle(session_id, known)
        self.require_shown(session_id, live)

    def require_shown(self, session_id: str, live: dict[str, Any]) -> None:
        """Require that a session that was opened again says what it said before."""
        now = self.shown(session_id)
        if not live["persisted"]:
            # The move of a draft to its place may have failed: an opening makes up for the move.
            for one in (live, now):
                del one["path"], one["persisted"]
        assert now == live

    def shown(self, session_id: str) -> dict[str, Any]:
        """Return what a session says of itself, live as reopened."""
        info: dict[str, Any] = self.ask("session/get", session_id=session_id)["session"]
        # What is opened from its place was put there at once, as far as its file tells.
        return {name: value for name, value in info.items() if name != "persist"}

    def kind_of(self, session_id: str) -> str:
        return self.run(_kind, self.wire, session_id)

    # -- ends ------------------------------------------------------------------------------

    @rule(
        keep=st.sampled_from([0, 1, 50, 300, 100_000]),
        names=st.integers(0, 6),
        zeros=st.sampled_from([0, 40]),
    )
    def cut_the_power(self, keep: int, names: int, zeros: int) -> None:
        rebooted = self.house.disk.crash(keep=keep, names=names, zeros=zeros)
        self.life.close()
        self.house.files = rebooted
        self.start()
        for session_id, known in list(self.sessions.items()):
            if known.in_memory and known.gone is False:
                known.gone = True
            self.look_after_the_cut(session_id, known)

    def look_after_the_cut(self, session_id: str, known: Known) -> None:
        kind = self.kind_of(session_id)
        if known.gone is not False and kind == "session_not_found":
            known.gone = True
            return
        assert known.gone is not True, "a deleted session is back"
        assert kind == "", kind
        known.gone = False
        found = self.stored(session_id)
        assert found[: len(known.ids)] == known.ids
        rest = found[len(known.ids) :]
        for batch in known.refused:
            if rest[: len(batch)] == batch:
                rest = rest[len(batch) :]
        assert rest == [], "what nobody sent, or a part of it, was stored"
        known.ids = found
        known.refused.clear()
        info = self.ask("session/get", session_id=session_id)["session"]
        known.archived = info["archived"]

    @rule(which=WHICH, ending=st.sampled_from(ENDINGS))
    def a_user_leaves_a_file(self, which: int, ending: str) -> None:
        """Beside any file of any session, or where the draft of the next one would lie."""
        layout, disk = self.house.layout, self.house.disk
        folders = (*layout.folders, layout.trash)
        named = [path for path in disk.paths if path.parent in folders and path.suffix == ".jsonl"]
        named.append(layout.pending_path(f"session-{self.numbers + 1:04d}"))
        self.bystanders.leave(disk, named[which % len(named)], ending)

    @rule()
    def restart(self) -> None:
        live = {
            session_id: self.shown(session_id)
            for session_id, known in self.sessions.items()
            if known.gone is False and not known.in_memory
        }
        self.life.close()
        self.start()
        for session_id, before in live.items():
            self.require_shown(session_id, before)
        for session_id, known in self.sessions.items():
            if known.in_memory:
                known.gone = True
            elif known.gone is None:
                known.gone = self.kind_of(session_id) != ""
            elif known.gone is False:
                self.settle(session_id, known)

    @invariant()
    def files_of_users_stay(self) -> None:
        self.bystanders.check(self.house.disk)

    @invariant()
    def what_is_listed_is_what_is_there(self) -> None:
        if not hasattr(self, "wire"):
            return
        page = self.ask("session/list", drafts=True, archived=None, limit=100)
        listed = {info["id"] for info in page["sessions"]}
        alive = {session_id for session_id, k in self.sessions.items() if k.gone is False}
        unsure = {session_id for session_id, k in self.sessions.items() if k.gone is None}
        assert alive <= listed <= alive | unsure


def append(
    session_id: str, ids: list[str], role: str, time: str | None
) -> tuple[str, dict[str, Any]]:
    made = {} if time is None else {"timestamp": time}
    entries = [
        {"type": "message", "id": entry_id, **made}
        | {"message": {"role": role, "content": entry_id * 9}}
        for entry_id in ids
    ]
    params: dict[str, Any] = {"session_id": session_id, "entries": entries}
    return "session/append", params


async def _call(wire: Wire, method: str, params: dict[str, Any]) -> Any:
    return await wire.call(method, **params)


async def _pipelined(wire: Wire, calls: tuple[tuple[str, dict[str, Any]], ...]) -> list[Any]:
    numbers = [await wire.request(method, **params) for method, params in calls]
    answers: list[Any] = []
    for number in numbers:
        try:
            answers.append(await wire.answer(number))
        except Refusal as refusal:
            answers.append(refusal)
    return answers


async def _kind(wire: Wire, session_id: str) -> str:
    """Return the kind of the refusal to a request for a session; "" if the session exists."""
    try:
        await wire.call("session/get", session_id=session_id)
    except Refusal as refusal:
        return str(refusal.data["kind"])
    return ""


async def _tidy(daemon: Daemon) -> None:
    """Do what a daemon does at its start, before the first request."""
    await to_thread.run_sync(remove_half_made, daemon.store)
    await to_thread.run_sync(settle_notes, daemon.store)
    await to_thread.run_sync(settle_drafts, daemon.store)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=6, stateful_step_count=15)


class IndexedLife(Life):
    """A home whose sessions keep their indexes: an index that is wrong would outlive a restart."""

    keeps_indexes = True


TestIndexedLife = IndexedLife.TestCase
TestIndexedLife.settings = settings(max_examples=3, stateful_step_count=15)


class LongLife(Life):
    """A longer run of the model."""


TestLongLife = pytest.mark.search(LongLife.TestCase)
TestLongLife.settings = settings(max_examples=25, stateful_step_count=40)


@pytest.mark.parametrize("nth", [4, 5, 6])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_draft_whose_move_to_its_place_failed_is_there_once_opened_again(
    nth: int, *, restarts: bool
) -> None:
    """Fail each call of the move that follows the first answer; luck found the calls."""
    life = Life()
    try:
        life.create(fault=None, persist="on_assistant")
        life.append(again=False, fault=(nth, 0), role="assistant", sizes=[1], time=None, which=0)
        if restarts:
            life.restart()
        else:
            life.close_and_open(fault=None, which=0)
        ((session_id, _),) = life.sessions.items()
        assert life.shown(session_id)["persisted"]
    finally:
        life.teardown()


@pytest.mark.parametrize("nth", range(1, 40))
def test_a_file_whose_making_failed_is_not_back_behind_a_power_cut(nth: int) -> None:
    """Fail each call of a promotion from memory; luck found the calls behind the file's own."""
    life = Life()
    try:
        life.create(fault=None, persist="never")
        life.promote(fault=(nth, 0), which=0)
        life.cut_the_power(keep=0, names=0, zeros=0)
    finally:
        life.teardown()
