"""An entry is stored elsewhere while any call of a daemon into the database is on its way: what is asked next knows of it.

Law: a read that begins behind an answer at any daemon shows what was answered, or says that it may be old, or is
refused with storage_error, retryable. A cursor of another daemon goes on at its place.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio
import pytest
from anyio import to_thread
from msgspec import Struct

from sessiond.service.database.database import SessionDatabase
from sessiond.testing.wire import Refusal, Wire
from tests.kit.calls import append, call, create_with, part_of, refused_answer
from tests.kit.limits import set_limits
from tests.kit.patience import PATIENCE_SECONDS, happened
from tests.kit.sessions import HI, SESSION, entry
from tests.service.one_database.connections import OUT_OF_REACH, Struck
from tests.service.one_database.site import NEVER, Site, clients_of

CALLS_MAX: Final = 50
"""More calls than any request makes."""
FOR_LONG: Final = 1_000
NEW, FIRST, SESSION_ID = "<new>", "<first>", "<session>"


class Moment:
    """What a call meets: it is on its way while a test does something, behind its work or before; then it may be lost."""

    def __init__(self, *, is_behind: bool, losses: int) -> None:
        self.has_begun, self.may_go = threading.Event(), threading.Event()
        self.is_met = False
        self.losses = losses
        """Number of calls that are lost, this one first."""
        self._is_behind = is_behind

    def __call__(
        self, _database: SessionDatabase, _session_id: str, call: Callable[[], Any]
    ) -> Any:
        self.is_met = True
        found = call() if self._is_behind else None
        self.has_begun.set()
        assert self.may_go.wait(PATIENCE_SECONDS)
        if self.losses:
            raise OUT_OF_REACH
        return found if self._is_behind else call()


MOMENTS: Final[dict[str, Callable[[], Moment]]] = {
    f"{'behind' if is_behind else 'before'}-{losses}": partial(
        Moment, is_behind=is_behind, losses=losses
    )
    for is_behind, losses in (
        (True, 0),
        (False, 1),
        (False, 2),
        (True, FOR_LONG),
        (False, FOR_LONG),
    )
}


class Rig(Struct):
    """A daemon that is attacked, with its clients, and a client of the daemon beside that one."""

    site: Site
    connection: Struck
    one: Wire
    """The client whose request makes the calls."""
    asker: Wire
    watchers: list[Wire]
    three: Wire


# -- what the daemon is about --------------------------------------------------------------


async def behind_by(rig: Rig, session_id: str, count: int = 1) -> None:
    """Let the other daemon store entries of a session that is open here."""
    await rig.one.call("session/get", session_id=session_id)
    for number in range(count):
        await append(rig.three, f"{session_id}-other-{number}", session_id=session_id)


async def closed(rig: Rig, session_id: str) -> None:
    """Keep a copy of a session, which the other daemon appends to then."""
    await behind_by(rig, session_id, 0)
    await rig.one.call("session/close", session_id=session_id)
    await append(rig.three, f"{session_id}-other", session_id=session_id)


async def in_turn(rig: Rig, session_id: str, count: int) -> None:
    """Lose a race, so that the next appends wait in turn, behind entries of the other daemon."""
    await behind_by(rig, session_id)
    await append(rig.one, f"{session_id}-late", session_id=session_id)
    for number in range(count):
        await append(rig.three, f"{session_id}-more-{number}", session_id=session_id)


async def not_open(_rig: Rig, _session_id: str) -> None:
    """Leave a session that this daemon does not know."""


async def restored(rig: Rig, session_id: str) -> None:
    """Delete and restore at the other daemon a session that is open here."""
    await behind_by(rig, session_id)
    await rig.three.call("session/delete", session_id=session_id)
    await rig.three.call("session/restore", session_id=session_id)


async def known(rig: Rig, session_id: str) -> None:
    """Let the other daemon store the entry that is about to be appended here."""
    await behind_by(rig, session_id, 0)
    await append(rig.three, f"{session_id}-mine", session_id=session_id)


Prepare = Callable[[Rig, str], Awaitable[None]]
APPEND: Final = ("append", {"entry": entry("<mine>")})
GET: Final[tuple[str, dict[str, Any]]] = ("session/get", {})
OPEN: Final[Prepare] = partial(behind_by, count=0)
WORK: Final[dict[str, tuple[Prepare, tuple[str, dict[str, Any]]]]] = {
    "open": (not_open, GET),
    "open-from-a-copy": (closed, GET),
    "open-again": (restored, GET),
    "look": (OPEN, GET),
    "look-far-behind": (partial(behind_by, count=5), GET),
    "append": (OPEN, APPEND),
    "append-at-an-opening": (not_open, APPEND),
    "append-behind": (behind_by, APPEND),
    "append-far-behind": (partial(behind_by, count=5), APPEND),
    "append-in-turn": (partial(in_turn, count=0), APPEND),
    "append-in-turn-behind": (partial(in_turn, count=1), APPEND),
    "append-in-turn-far-behind": (partial(in_turn, count=5), APPEND),
    "repeat": (known, APPEND),
    "refuse-in-turn": (
        partial(in_turn, count=0),
        ("append", {"message": HI, "expected": {"leaf_id": "lost"}}),
    ),
    "flush": (OPEN, ("session/flush", {})),
    "close": (OPEN, ("session/close", {})),
}
"""What the daemon does while its calls are struck: what comes before that, and the request."""


# -- what is asked meanwhile -----------------------------------------------------------------

Shows = Callable[[Any, int, str], bool]


def is_answered(_answer: Any, _seq: int, _name: str) -> bool:
    """Take any answer: without the entry there is none."""
    return True


def has_name(answer: Any, _seq: int, name: str) -> bool:
    """Return whether an answer shows the entry."""
    return name in str(answer)


def has_seq(answer: Any, seq: int, _name: str) -> bool:
    """Return whether an answer shows the session as it is with the entry."""
    return bool(part_of(answer, "session.seq") >= seq)


OF_ONE: Final = {"session_id": SESSION_ID}
Reads = tuple[tuple[str, dict[str, Any], Shows], ...]
READS: Final[Reads] = (
    ("session/get", OF_ONE, has_seq),
    ("session/open", OF_ONE, has_seq),
    ("session/create", {**OF_ONE, "cwd": "/p", "if_exists": "open"}, has_seq),
    ("session/entry", {**OF_ONE, "entry_id": NEW}, is_answered),
    ("session/entries", OF_ONE, has_name),
    ("session/path", OF_ONE, has_name),
    ("session/path", {**OF_ONE, "entry_id": NEW}, has_name),
    ("session/tree", OF_ONE, has_name),
    ("session/turns", OF_ONE, has_name),
    ("session/build_context", OF_ONE, has_name),
    ("session/build_context", {**OF_ONE, "entry_id": NEW}, has_name),
    ("session/resolve_entries", {**OF_ONE, "refs": [NEW]}, has_name),
    ("session/plan_branch_summary", {**OF_ONE, "entry_id": NEW}, is_answered),
    ("session/export", OF_ONE, has_name),
    ("session/fork", {**OF_ONE, "at": NEW}, is_answered),
    ("session/fork", {**OF_ONE, "at": NEW, "dry_run": True}, is_answered),
)
OF_ALL: Final[Reads] = (
    ("session/open", {"entry_id": NEW}, has_seq),
    ("session/open", {"entry_id": FIRST}, has_seq),
    ("session/resolve", {"ref": SESSION_ID}, has_seq),
    ("session/search", {"query": NEW}, has_name),
)
CHANGES: Final[Reads] = (
    ("session/label", {**OF_ONE, "entry_id": NEW, "label": "a label"}, is_answered),
    ("append", {**OF_ONE, "head": "side", "parent_id": NEW, "message": HI}, is_answered),
    ("session/branch", {**OF_ONE, "entry_id": NEW}, is_answered),
    ("session/navigate", {**OF_ONE, "entry_id": NEW}, is_answered),
)


def filled(value: Any, words: dict[str, str]) -> Any:
    """Return parameters with the names of one attack in place of what stands for them."""
    if isinstance(value, dict):
        return {key: filled(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, words) for one in value]
    return words.get(value, value) if isinstance(value, str) else value


async def outcome(wire: Wire, number: int) -> Any:
    """Return the result of a request, or its refusal."""
    try:
        return await wire.answer(number)
    except Refusal as refusal:
        return refusal


def is_lawful(found: Any, shows: Shows, seq: int, name: str) -> bool:
    """Return whether an answer is current, or says that it may be old, or is no answer for now."""
    if isinstance(found, Refusal):
        return (found.data["kind"], found.data["retryable"]) == ("storage_error", True)
    return "stale_since" in found.get("_meta", {}) or shows(found, seq, name)


# -- the attack --------------------------------------------------------------------------------


class Attack:
    """One call that is struck while the other daemon stores an entry, and what is asked behind that."""

    def __init__(
        self, rig: Rig, session_id: str, moment: Moment, reads: Reads, *, renews: bool
    ) -> None:
        self.rig = rig
        self.reads = reads
        self.session_id = session_id
        self.moment = moment
        self.renews = renews
        """True if the session gets another epoch before the entry."""
        self.name = f"{session_id}-new"
        self.words = {
            NEW: self.name,
            FIRST: f"{session_id}-first",
            SESSION_ID: session_id,
            "<mine>": f"{session_id}-mine",
        }

    async def begin(self, work: str, nth: int) -> int:
        """Send the request whose nth call is struck; return its number."""
        prepare, (method, params) = WORK[work]
        rig, names = self.rig, (f"{self.session_id}-first", f"{self.session_id}-second")
        await create_with(rig.three, *names, session_id=self.session_id, persist="immediate")
        await prepare(rig, self.session_id)
        (self.before,) = (await self.stored(rig.three))[-1:]
        rig.connection.fate = self.moment
        rig.connection.left = nth
        members = filled({**OF_ONE, **params}, self.words)
        return await rig.one.request(method, **members)

    async def stored(self, wire: Wire) -> list[tuple[int, str]]:
        """Return the entries of the session, as a daemon has them."""
        found: list[tuple[int, str]] = await call(
            wire, "session/entries", "entries[].{seq,entry.id}", session_id=self.session_id
        )
        return found

    async def store_elsewhere(self) -> None:
        """Store the entry at the other daemon."""
        if self.renews:
            await to_thread.run_sync(self._renew)
        self.seq = (await append(self.rig.three, self.name, session_id=self.session_id))["entries"][
            0
        ]["seq"]
        self.epoch = await call(
            self.rig.three, "session/get", "session.epoch", session_id=self.session_id
        )

    def _renew(self) -> None:
        database: SessionDatabase = self.rig.connection.inner
        head = database.find(self.session_id)
        assert head is not None, "the session is there"
        assert database.renew(head, f"renewed-{self.session_id}", head.digest)

    @property
    def cursors(self) -> list[dict[str, Any]]:
        """Cursors of clients of the other daemon, each of which fits; none beside changes.

        A subscription lets the daemon look, so that it would look before the changes, too.
        """
        if self.reads is CHANGES:
            return []
        old = {"seq": self.before[0], "entry_id": self.before[1]}
        new = {"seq": self.seq, "entry_id": self.name}
        return [old, new, {**old, "epoch": self.epoch}, {"seq": self.seq, "epoch": self.epoch}]

    async def ask(self) -> list[str]:
        """Ask while the call is on its way; return the answers that break the law."""
        rig = self.rig
        asked = [
            await rig.asker.request(method, **filled(params, self.words))
            for method, params, _ in self.reads
        ]
        resumed = [
            await wire.request("subscribe", session_id=self.session_id, after=after)
            for wire, after in zip(rig.watchers, self.cursors, strict=False)
        ]
        # The requests are in line.
        for wire in (rig.asker, *rig.watchers):
            await wire.call("server/ping")
        rig.connection.losses = max(self.moment.losses - 1, 0)
        self.moment.may_go.set()
        faults: list[str] = []
        for number, (method, params, shows) in zip(asked, self.reads, strict=True):
            found = await outcome(rig.asker, number)
            if not is_lawful(found, shows, self.seq, self.name):
                faults.append(f"{method} {params} is {found}"[:300])
        self.begun = [
            await outcome(wire, number) for wire, number in zip(rig.watchers, resumed, strict=False)
        ]
        return faults

    async def resume(self) -> list[str]:
        """Append once more, and tell which subscribers are told of entries twice, or not at all."""
        rig, faults, ask = self.rig, list[str](), {"session_id": self.session_id}
        await append(rig.three, f"{self.session_id}-last", session_id=self.session_id)
        stored = await self.stored(rig.three)
        for wire, after, begun in zip(rig.watchers, self.cursors, self.begun, strict=False):
            if isinstance(begun, Refusal) and is_lawful(begun, is_answered, 0, ""):
                begun = await outcome(wire, await wire.request("subscribe", **ask, after=after))
            if isinstance(begun, Refusal) or "replaced" in begun:
                faults.append(f"the cursor {after} is {begun}")
                continue
            await wire.call("session/get", **ask)
            await wire.call("session/unsubscribe", **ask)
            told, wire.notifications = wire.notifications, []
            seen = [one["params"]["seq"] for one in told if one["method"] == "session/event"]
            # Without an epoch in its cursor, a client that subscribed under the earlier one begins again.
            if seen != [seq for seq, _ in stored if seq > after["seq"]] and (
                "epoch" in after or not self.renews
            ):
                faults.append(f"behind {after} came {seen}")
        return faults


async def attack(rig: Rig, work: str, nth: int, one: Attack) -> list[str] | None:
    """Carry out an attack; return what broke the law, None if the work makes fewer calls."""
    number, faults = await one.begin(work, nth), list[str]()
    async with anyio.create_task_group() as tasks:

        async def settle() -> None:
            await outcome(rig.one, number)
            one.moment.has_begun.set()

        tasks.start_soon(settle)
        await happened(one.moment.has_begun)
        rig.connection.left = 0
        # While a row is held here, nobody stores an entry elsewhere.
        if one.moment.is_met and not rig.site.is_held:
            await one.store_elsewhere()
            faults += await one.ask()
            rig.connection.losses = 0
            faults += await one.resume()
        one.moment.may_go.set()
    return faults if one.moment.is_met else None


@pytest.mark.parametrize("renews", [False, True], ids=["stored", "renewed"])
@pytest.mark.parametrize("work", WORK)
async def test_what_is_asked_behind_an_answer_elsewhere_knows_of_it_whatever_a_call_meets(
    site: Site, monkeypatch: pytest.MonkeyPatch, work: str, *, renews: bool
) -> None:
    await enumerated(site, monkeypatch, work, READS, renews=renews)


@pytest.mark.parametrize("work", ["open", "look-far-behind", "append", "append-in-turn"])
@pytest.mark.parametrize("asked", [OF_ALL, CHANGES], ids=["lists", "changes"])
async def test_what_rests_on_lists_or_changes_a_session_knows_of_it_too(
    site: Site, monkeypatch: pytest.MonkeyPatch, work: str, asked: Reads
) -> None:
    await enumerated(site, monkeypatch, work, asked, renews=False)


async def enumerated(
    site: Site, monkeypatch: pytest.MonkeyPatch, work: str, reads: Reads, *, renews: bool
) -> None:
    """Strike each call of some work, at each moment."""
    set_limits(
        monkeypatch,
        KEPT_COPY_LINES=2,
        DATABASE_PIECE_LINES=2,
        CONTENDED_SECONDS=PATIENCE_SECONDS,
    )
    connection, faults = Struck(site.connect()), dict[str, list[str]]()
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        clients_of(site, "three", poll_seconds=NEVER) as (three,),
        AsyncExitStack() as ends,
    ):
        wires = [await ends.enter_async_context(daemon.connect()) for _ in range(6)]
        rig = Rig(site, connection, wires[0], wires[1], wires[2:], three)
        for moment, make in MOMENTS.items():
            for nth in range(1, CALLS_MAX):
                one = Attack(rig, f"{moment}-{nth}", make(), reads, renews=renews)
                found = await attack(rig, work, nth, one)
                if found is None:
                    break
                if found:
                    faults[f"call {nth}, {moment}"] = found
            else:
                pytest.fail("the work makes fewer calls")
    assert not faults


async def test_a_read_beside_a_change_that_nobody_can_judge_now_is_answered(site: Site) -> None:
    connection = Struck(site.connect())
    async with (
        site.daemon("one", connection, NEVER) as daemon,
        daemon.connect() as one,
        daemon.connect() as other,
        daemon.connect() as asker,
    ):
        await create_with(one, "e-1", persist="immediate")
        connection.fate = moment = Moment(is_behind=False, losses=FOR_LONG)
        connection.left = 1
        first = await one.request("session/get", session_id=SESSION)
        await happened(moment.has_begun)
        changes = await other.request(
            "session/label", session_id=SESSION, entry_id="e-2", label="new"
        )
        await other.call("server/ping")
        asks = await asker.request("session/get", session_id=SESSION)
        await asker.call("server/ping")
        connection.losses = FOR_LONG
        moment.may_go.set()
        assert (await one.answer(first))["_meta"]["stale_since"]
        assert await refused_answer(other, changes) == "storage_error"
        assert (await asker.answer(asks))["_meta"]["stale_since"]
