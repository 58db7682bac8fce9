"""Every kind of request with every failing disk call: refused without effect, or done.

The tests of journal faults test the journal alone in this way; here a client asks the whole daemon.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sessiond.testing.daemon import Wire
from sessiond.testing.disk import FaultDisk
from tests.crash.harness.every_call import Act, found_after, refusal_of, refused_by_each_call
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.sessions import native_file


def message(entry_id: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "id": entry_id, "message": {"role": role, "content": entry_id}}


def asking(method: str, **params: Any) -> Any:
    async def ask(wire: Wire, session_id: str) -> object:
        return await wire.call(method, session_id=session_id, **params)

    return ask


async def nothing(_wire: Wire, _session_id: str) -> object:
    return None


async def a_draft(wire: Wire, session_id: str) -> None:
    await create(wire, session_id)
    await wire.call("append", session_id=session_id, entry=message("own1"))


async def a_session(wire: Wire, session_id: str) -> None:
    await a_draft(wire, session_id)
    await wire.call("append", session_id=session_id, entry=message("own2", "assistant"))


async def in_memory(wire: Wire, session_id: str) -> None:
    await create(wire, session_id, persist="never")
    await wire.call("append", session_id=session_id, entry=message("own1"))


async def an_archived_one(wire: Wire, session_id: str) -> None:
    await a_session(wire, session_id)
    await wire.call("session/archive", session_id=session_id)


async def a_deleted_one(wire: Wire, session_id: str) -> None:
    await a_session(wire, session_id)
    await wire.call("session/delete", session_id=session_id)


async def hear_all(wire: Wire, session_id: str) -> object:
    """Subscribe from the beginning and receive all events; subscribe again after session/closed."""
    heard: list[int] = []
    await wire.call("subscribe", session_id=session_id, after={"seq": 0})
    while True:
        told = await wire.next_notification()
        if told["method"] == "session/event":
            heard.append(told["params"]["seq"])
        elif told["method"] == "session/closed":
            assert told["params"]["reason"] == "storage_error"
            heard.clear()
            await wire.call("subscribe", session_id=session_id, after={"seq": 0})
        elif told["method"] == "session/synced":
            assert heard == [1, 2]
            return heard


def lines(*entries: dict[str, Any]) -> Callable[[str], bytes]:
    """Return a function that makes a file with these entries from a session id."""
    return lambda session_id: native_file([entry | STORED for entry in entries], session_id)


def torn(session_id: str) -> bytes:
    """Return a file that a crash left with half a line at its end."""
    return lines(message("own1"))(session_id) + b'{"type":"message","id":"ow'


def half_an_atom(session_id: str) -> bytes:
    """Return a file that a crash left with the first of the three lines of an append."""
    first = message("own2") | {"atom": [1, 3], "atom_of": session_id}
    return lines(message("own1"), first)(session_id)


def damaged(session_id: str) -> bytes:
    """Return a file with a bad line among good lines."""
    return (
        lines(message("own1"))(session_id)
        + b"bad\n"
        + native_file([message("own2") | STORED], "x").split(b"\n")[1]
        + b"\n"
    )


def of_pi(session_id: str) -> bytes:
    """Return a pi file without its last newline."""
    return (
        b'{"type":"session","version":3,"id":"%s","timestamp":"2026-01-15T10:30:00.000Z","cwd":"/p"}\n'
        b'{"type":"message","id":"own1","parentId":null,"timestamp":"2026-01-15T10:30:00.000Z",'
        b'"message":{"role":"user","content":"hi","timestamp":1}}'
    ) % session_id.encode()


async def listed(wire: Wire, session_id: str) -> object:
    found = (await wire.call("session/list", drafts=True))["sessions"]
    return [info["id"] for info in found].index(session_id)


BATCH = [message("own3"), message("own4", "assistant"), message("own5")]

STORED = {"parent_id": None, "timestamp": "2026-01-15T10:30:00.000Z"}

THEIRS = (
    b'{"type":"message","id":"owntheirs","parent_id":"own1","timestamp":"2026-01-15T10:30:00.000Z",'
    b'"message":{"role":"user","content":"theirs"}}'
)

OPEN = asking("session/open")
ONE_MORE = asking("append", entry=message("own3"))

ACTS: dict[str, Act] = {
    "open what is torn": Act(nothing, OPEN, torn, cold=True, killed=True, leaves_torn=True),
    "open what ends in half a line": Act(nothing, OPEN, torn, cold=True, leaves_torn=True),
    "open half an atom": Act(nothing, OPEN, half_an_atom, cold=True, leaves_torn=True),
    "append to what is torn": Act(nothing, ONE_MORE, torn, cold=True, killed=True),
    "append to half an atom": Act(nothing, ONE_MORE, half_an_atom, cold=True),
    "open a file of pi": Act(nothing, asking("session/open"), of_pi, cold=True),
    "repair": Act(nothing, asking("session/repair", dry_run=False), damaged, epoch=False),
    "list": Act(a_session, listed),
    "create": Act(nothing, asking("session/create", cwd="/p", if_exists="open")),
    "create at its place": Act(
        nothing, asking("session/create", cwd="/p", persist="immediate", if_exists="open")
    ),
    "append": Act(a_session, asking("append", entries=BATCH)),
    "append that promotes": Act(a_draft, asking("append", entries=BATCH)),
    "append under a key": Act(
        a_session, asking("append", message={"role": "user"}, idempotency_key="k")
    ),
    "a new head": Act(
        a_session, asking("append", entry=message("own3"), head="side", parent_id="own1")
    ),
    "compact": Act(
        a_session,
        asking("compact", summary="s", first_kept_entry_id="own2", idempotency_key="k"),
    ),
    "promote": Act(a_draft, asking("session/update", title="t", persist="immediate"), again=False),
    "promote beside a foreign line": Act(
        a_draft,
        asking("session/update", title="t", persist="immediate"),
        again=False,
        lands=THEIRS,
    ),
    "append beside a foreign line": Act(a_session, asking("append", entries=BATCH), lands=THEIRS),
    "promote out of memory": Act(
        in_memory, asking("session/update", title="t", persist="immediate"), again=False
    ),
    "branch": Act(a_session, asking("branch", entry_id="own1", summary="left"), again=False),
    "label": Act(a_session, asking("session/label", entry_id="own1", label="x"), again=False),
    "task": Act(
        a_session,
        asking("session/task", decision={"decision": "d"}, idempotency_key="k"),
    ),
    "first decision of a draft": Act(
        a_draft, asking("session/decide", decision="d", idempotency_key="k")
    ),
    "update": Act(a_session, asking("session/update", title="t"), again=False),
    "rewind": Act(a_session, asking("session/rewind", to="own1"), again=False),
    "open": Act(a_session, asking("session/open"), cold=True),
    "subscribe and hear of all": Act(a_session, hear_all, cold=True),
    "verify": Act(a_session, asking("session/verify")),
    "purge": Act(a_deleted_one, asking("session/purge"), again=False),
    "archive": Act(a_session, asking("session/archive")),
    "archive a draft": Act(a_draft, asking("session/archive")),
    "unarchive": Act(an_archived_one, asking("session/unarchive")),
    "delete": Act(a_session, asking("session/delete")),
}


# The other acts take longer, and differ in their requests more than in the ways they fail.
FAST = (
    "append",
    "append that promotes",
    "promote beside a foreign line",
    "a new head",
    "archive",
    "delete",
    "list",
)
CASES = [
    pytest.param(name, partial, marks=() if name in FAST and partial else pytest.mark.search)
    for name in ACTS
    # Some bytes of a failed write or sync may reach the disk.
    for partial in (0, 50)
]


@pytest.mark.parametrize(("name", "partial"), CASES)
async def test_what_is_refused_did_not_happen_and_works_again(
    home: Path, name: str, partial: int
) -> None:
    house = House(home, FaultDisk(home))
    async with house.daemon() as daemon:
        assert await refused_by_each_call(house, daemon, ACTS[name], partial=partial)


async def test_what_is_stored_after_a_refused_delete_is_not_in_the_trash_after_a_power_cut(
    home: Path,
) -> None:
    house = House(home, FaultDisk(home))
    refusals = 0
    async with house.daemon() as daemon, daemon.connect() as wire:
        for nth in count(1):
            session_id = f"session-{nth}"
            await a_session(wire, session_id)
            fault = house.disk.fail(None, nth=nth)
            refusal = await refusal_of(wire.call("session/delete", session_id=session_id))
            house.disk.heal()
            if refusal is not None:
                refusals += 1
                await wire.call("append", session_id=session_id, entry=message("own3"))
                for names in range(6):
                    left = house.disk.crash(names=names)
                    assert "message own3" in (found_after(left, house.layout, session_id) or ())
            if not fault.hit:
                break
    assert refusals > 2


@pytest.mark.search
@pytest.mark.parametrize(
    "method",
    ["session/import", "session/export", "session/fork", "session/rebase", "session/merge"],
)
async def test_a_copy_is_there_as_a_whole_or_not_at_all(home: Path, method: str) -> None:
    house = House(home, FaultDisk(home))
    source = home / "source.jsonl"
    house.disk.put(source, lines(message("own1"))("elsewhere"))
    async with house.daemon() as daemon, daemon.connect() as wire:
        await a_session(wire, "session-a")
        await a_session(wire, "session-b")
        ways: dict[str, dict[str, Any]] = {
            "session/import": {"path": str(source)},
            "session/export": {"session_id": "session-a"},
            "session/fork": {"session_id": "session-a"},
            "session/rebase": {"session_id": "session-a", "indices": [0]},
            "session/merge": {
                "session_id": "session-a",
                "other_session_id": "session-b",
                "text": "both",
                "into": "new",
            },
        }
        for nth in count(1):
            params = dict(ways[method])
            if method == "session/export":
                params["path"] = str(home / f"copy-{nth}.jsonl")
            if method == "session/fork":
                # A retry after a refusal names this session again.
                params["new_session_id"] = f"the-fork-{nth}"
            before = session_files(house)
            fault = house.disk.fail(None, nth=nth, errno=errno.ENOSPC, partial=50)
            refusal = await refusal_of(wire.call(method, **params))
            house.disk.heal()
            if refusal is not None:
                assert refusal.data.get("errno") == "ENOSPC", (refusal, fault, nth)
                assert session_files(house) == before, f"call {nth}, {fault.met}"
                await wire.call(method, **params)
            (copy,) = session_files(house) - before
            assert house.disk.crash().content(copy) == house.disk.content(copy)
            if not fault.hit:
                assert nth > 5
                return


def session_files(house: House) -> set[Path]:
    return {path for path in house.disk.paths if path.suffix == ".jsonl"}
