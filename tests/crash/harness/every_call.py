"""A request repeated many times, each time with a failure of another call into the disk.

Law: one daemon, one session per attempt and one failure per attempt, until an attempt meets
no failure. After each attempt the session shows what it showed before, or the whole effect of
the request. So does the state that a power cut would have left at that moment. A retry of the
request works. The user's files beside the session's file stay unchanged.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from anyio import to_thread
from msgspec import Struct

from sessiond.errors import SessiondError
from sessiond.journal.profile.layout import Layout
from sessiond.service.files.crash_recovery import open_unchanged
from sessiond.service.log.indexer import Indexer
from sessiond.testing.daemon import Daemon, Refusal, Wire
from sessiond.testing.disk import FaultDisk
from sessiond.testing.faults import Fault
from tests.crash.harness.bystanders import Bystanders
from tests.kit.house import House
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Act", "Shown", "found_after", "refusal_of", "refused_by_each_call"]

CALLS_MAX: Final = 150
# How much of what was under way a power cut keeps: bytes of each file, changes of names.
POWER_CUTS: Final = ((0, 0), (60, 1), (100_000, 100))

# What another program's line changes nothing of.
_KEPT: Final = ("path", "persisted", "title", "archived", "epoch")

Ask = Callable[[Wire, str], Awaitable[object]]
Lines = tuple[str, ...]
Shown = dict[str, Any] | str


class Act(Struct, frozen=True):
    """A request about a prepared session.

    `content`: the file's first content, from the session's id. `again`: a second request has no
    further effect. `cold`: no client has the session open. `epoch`: a refused request keeps the
    epoch. `lands`: a line that a foreign writer adds right before the request. `killed`: the daemon
    that had the session open was killed. `leaves_torn`: the torn end of the file stays.
    """

    prepare: Ask
    ask: Ask
    content: Callable[[str], bytes] | None = None
    again: bool = True
    cold: bool = False
    epoch: bool = True
    lands: bytes | None = None
    killed: bool = False
    leaves_torn: bool = False


async def refused_by_each_call(house: House, daemon: Daemon, act: Act, *, partial: int) -> int:
    """Make attempts until one meets no failure; return the number of calls that could fail."""
    disk, layout = house.disk, house.layout
    async with daemon.connect() as wire, daemon.connect() as other:
        for nth in range(1, CALLS_MAX):
            session_id = f"session-{nth}-{partial}"
            if act.content is not None:
                house.put(act.content(session_id), session_id, killed=act.killed)
            await act.prepare(wire, session_id)
            bystanders = Bystanders()
            bystanders.surround(disk, layout, session_id)
            if act.cold:
                await _let_go(daemon, (wire, other), session_id)
            # A look at a cold session would open it.
            before = None if act.cold else await shown(other, session_id)
            stored = found_after(disk.crash(keep=100_000), layout, session_id)
            _land(act, disk, layout, session_id)
            fault = disk.fail(None, nth=nth, errno=errno.ENOSPC, partial=partial)
            refusal = await refusal_of(act.ask(wire, session_id))
            disk.heal()
            cuts = [disk.crash(keep=keep, names=names) for keep, names in POWER_CUTS]
            if refusal is not None:
                assert fault.hit, refusal
                _check_told(refusal)
                now = await shown(other, session_id)
                _check_same(act, before, now)
            done = await shown(other, session_id)
            if refusal is not None or act.again:
                again = await refusal_of(act.ask(wire, session_id))
                assert again is None, f"after call {nth}, {fault.met}: {again}"
            if refusal is None:
                assert await shown(other, session_id) == done, "asked twice it was done twice"
            await _let_go(daemon, (wire, other), session_id)
            whole = found_after(disk.crash(keep=100_000), layout, session_id)
            allowed = [whole]
            if refusal is not None:
                allowed += _untouched(act, stored)
            for found in [found_after(cut, layout, session_id) for cut in cuts]:
                assert found in allowed, f"call {nth}, {fault.met}"
            assert found_after(disk.crash(), layout, session_id) == whole
            bystanders.check(disk)
            bystanders.remove(disk)
            _check_nothing_left(act, disk, fault)
            if not fault.hit:
                return nth - 1
    raise AssertionError("calls without end")


def _land(act: Act, disk: FaultDisk, layout: Layout, session_id: str) -> None:
    if act.lands is not None:
        (path,) = layout.find_all(disk, session_id)
        disk.write_as_another(path, act.lands + b"\n")


def _untouched(act: Act, stored: Lines | None) -> list[Lines | None]:
    """Return the contents that a file may have after a refusal: old lines, then a foreign line."""
    return [stored] if act.lands is None else [stored, (*(stored or ()), _one(act.lands))]


async def shown(wire: Wire, session_id: str) -> Shown:
    """Return what a session shows; the kind of the refusal if the session cannot be read."""
    result: dict[str, Any] = {}
    try:
        info = (await wire.call("session/get", session_id=session_id))["session"]
        if info["persisted"]:
            # A session with a file is reopened as if it had been created with a file at once.
            del info["persist"]
        result["info"] = info
        result["entries"] = await wire.call("session/entries", session_id=session_id)
        result["heads"] = await wire.call("session/heads", session_id=session_id)
    except Refusal as refusal:
        return str(refusal.data["kind"])
    return result


def found_after(disk: FaultDisk, layout: Layout, session_id: str) -> Lines | None:
    """Return the lines that a reboot finds, each by its type, and its id if a client chose it."""
    paths = layout.find_all(disk, session_id)
    if not paths:
        return None
    try:
        indexer = Indexer(paths[0], in_place=True)
        journal = open_unchanged(disk, indexer, locks=layout.locks, stamp=lambda: "now")
    except SessiondError as error:
        return (error.kind,)
    try:
        return _told(journal.read(0, journal.line_count - 1))
    finally:
        journal.close()


def _told(lines: list[bytes]) -> Lines:
    return tuple(_one(line) for line in lines)


def _one(line: bytes) -> str:
    try:
        fields = json.loads(line)
        kind, name = fields["type"], fields["id"]
    except (ValueError, KeyError, TypeError):
        return "bad line"
    # Ids made by the daemon differ between two attempts, so only clients' ids are compared.
    return f"{kind} {name}" if name.startswith("own") else str(kind)


async def refusal_of(asked: Awaitable[object]) -> Refusal | None:
    """Return the refusal of a call; None if the call succeeds."""
    try:
        await asked
    except Refusal as refusal:
        return refusal
    return None


def _check_same(act: Act, before: Shown | None, now: Shown) -> None:
    if not act.epoch and not isinstance(before, str | None) and not isinstance(now, str):
        before, now = ({k: v | {"epoch": None} for k, v in one.items()} for one in (before, now))
    if act.lands is not None and isinstance(before, dict) and isinstance(now, dict):
        # What the other program wrote is there, and moves the head.
        before, now = ({name: one["info"][name] for name in _KEPT} for one in (before, now))
    assert before is None or now == before


def _check_told(refusal: Refusal) -> None:
    assert refusal.data["kind"] == "storage_error", refusal
    assert refusal.data["errno"] == "ENOSPC", refusal
    assert refusal.data["retryable"] is True, refusal


async def _let_go(daemon: Daemon, wires: tuple[Wire, ...], session_id: str) -> None:
    """Close a session until its file is free: a session that is being read stays open at first."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not daemon.service.registry.is_free(session_id):
            for wire in wires:
                await wire.call("session/close", session_id=session_id)
            await to_thread.run_sync(lambda: None)


def _check_nothing_left(act: Act, disk: FaultDisk, fault: Fault) -> None:
    left = [path for path in disk.paths if path.suffix == ".new"]
    assert left == [], f"left after {fault.met}"
    assert disk.open_descriptors == 0
    records = [path for path in disk.paths if path.parent.name == "locks"]
    # A record may stay if it could not be removed, or if it could not be read and so leaves the
    # file in doubt; the next owner's record replaces it. A record that proves a torn end to be
    # sessiond's stays as long as the torn end.
    excused = act.leaves_torn or fault.met in {"unlink", "open_read", "pread"}
    assert records == [] or excused, f"left after {fault.met}"
    for path in records:
        disk.unlink(path)
