"""Every method on one session by everything that can be wrong with that session.

The table below is held complete by a test: a new method is in the matrix as soon as
it is in METHODS, or the test names it. What is refused has changed nothing on disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, get_type_hints

import pytest

from sessiond.errors import ERRORS
from sessiond.journal.profile.lock import owned
from sessiond.methods import METHODS
from sessiond.testing.daemon import Refusal, Wire
from sessiond.testing.disk import FaultDisk
from tests.kit.calls import create
from tests.kit.house import House
from tests.kit.sessions import HI, SESSION

# What is asked is refused or it is not, whichever loop runs: one is enough here.
one_backend = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="session")

# In memory, so that nothing is wrong with it.
OTHER: Final = "session-b-in-memory"
ENTRIES: Final = [
    {"type": "message", "id": "n1", "parent_id": None, "message": HI},
    {"type": "message", "id": "n2", "parent_id": "n1", "message": {"role": "assistant"}},
]
COPY: Final = "2026-02-02T00-00-00-000000_session-a.jsonl"
TITLE: Final = {"title": "a name"}
READ, MUTATION, WHOLE = "read", "mutation", "the file as a whole"
# A lease that nobody has: whether the session can be read is what matters first.
LEASE = "lease"
# What lists show of it: they read a file without owning it, and name one that is no session.
LISTED = "listed"

# What a call needs beside the session, and whether it reads the session, changes it, or does
# something to its file as a whole.
EXAMPLES: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "session/create": (WHOLE, {"cwd": "/p"}),
    "catalog/forest": (LISTED, {}),
    "session/search": (LISTED, {"query": "hi"}),
    "session/open": (READ, {}),
    "session/close": (WHOLE, {}),
    "session/get": (READ, {}),
    "session/update": (MUTATION, TITLE),
    "session/append": (MUTATION, {"message": HI}),
    "session/branch": (MUTATION, {"entry_id": "n1"}),
    "session/reset": (MUTATION, {}),
    "session/rewind": (MUTATION, {"to": "n1"}),
    "session/decide": (MUTATION, {"decision": "d"}),
    "session/artifact": (MUTATION, {"name": "a", "path": "p"}),
    "session/task": (MUTATION, {}),
    "session/prune": (MUTATION, {"force": True}),
    "session/brief": (READ, {}),
    "session/label": (MUTATION, {"entry_id": "n1", "label": "x"}),
    "session/labels": (READ, {}),
    "session/heads": (READ, {}),
    "session/entry": (READ, {"entry_id": "n1"}),
    "session/entries": (READ, {}),
    "session/resolve_entries": (READ, {"refs": ["n1"]}),
    "session/path": (READ, {}),
    "session/tree": (READ, {}),
    "session/turns": (READ, {}),
    "session/build_context": (READ, {}),
    "session/navigate": (MUTATION, {"entry_id": "n1"}),
    "session/plan_branch_summary": (READ, {"entry_id": "n1"}),
    "session/plan_compaction": (READ, {}),
    "session/usage": (READ, {}),
    "session/stats": (READ, {}),
    "session/queue": (READ, {}),
    "session/compact": (MUTATION, {"summary": "s"}),
    "session/subscribe": (READ, {"after": {"seq": 0}}),
    "session/unsubscribe": (WHOLE, {}),
    "session/flush": (WHOLE, {}),
    "session/acquire": (READ, {"ttl_ms": 1000}),
    "session/renew": (LEASE, {"lease_id": "l", "ttl_ms": 1000}),
    "session/release": (READ, {"lease_id": "l"}),
    "session/signal": (READ, {"kind": "abort"}),
    "session/presence": (READ, {"state": "watching"}),
    "session/rebase": (READ, {"indices": [0]}),
    "session/plan_merge": (READ, {"other_session_id": OTHER}),
    "session/merge": (MUTATION, {"other_session_id": OTHER, "text": "t"}),
    "session/fork": (READ, {"new_session_id": "the-fork"}),
    "session/export": (READ, {}),
    "session/archive": (WHOLE, {}),
    "session/unarchive": (WHOLE, {}),
    "session/delete": (WHOLE, {}),
    "session/restore": (WHOLE, {}),
    "session/forget": (WHOLE, {}),
    "session/purge": (WHOLE, {}),
    "session/verify": (WHOLE, {}),
    "session/repair": (WHOLE, {"dry_run": False}),
}
# They make a file beside the one they read.
COPIES: Final = ("session/fork", "session/rebase")
ABSENT: Final = "session_not_found"
UNWATCHED: Final = {"session/unsubscribe": "subscription_not_found"}
EXISTS: Final = {
    "session/restore": "session_exists",
    "session/forget": "invalid_params",
    "session/purge": "session_exists",
}
LIVE: Final = {
    **UNWATCHED,
    "session/flush": "subscription_not_found",
    "session/create": "session_exists",
    **EXISTS,
}


class Case:
    """A state of the session, and the kind of error that each call gets; None is an answer."""

    def __init__(
        self,
        read: str | None,
        mutation: str | None,
        whole: dict[str, str],
        *,
        is_open: bool = False,
    ) -> None:
        self.is_open = is_open
        self._read = read
        self._mutation = mutation
        self._whole = whole

    def expected(self, method: str) -> str | None:
        """Return the kind of error for a method."""
        if method in self._whole:
            return self._whole[method]
        listed = None if self._read in {None, "session_locked"} else ABSENT
        kinds = {
            READ: self._read,
            LEASE: self._read or "lease_lost",
            MUTATION: self._mutation,
            WHOLE: None,
            LISTED: listed,
        }
        return kinds[EXAMPLES[method][0]]


def everything_else(kind: str, *but: str) -> dict[str, str]:
    """Return one kind of error for all methods about the whole file, except those in `but`."""
    return {name: kind for name, (what, _) in EXAMPLES.items() if what == WHOLE and name not in but}


CASES: Final[dict[str, Case]] = {
    "an unknown id": Case(
        ABSENT, ABSENT, everything_else(ABSENT, "session/create", "session/close") | UNWATCHED
    ),
    "deleted": Case(
        ABSENT,
        ABSENT,
        everything_else(
            ABSENT,
            "session/create",
            "session/close",
            "session/delete",
            "session/restore",
            "session/purge",
        )
        | UNWATCHED,
    ),
    "archived": Case(None, "session_archived", LIVE),
    "a bad line": Case(None, "session_corrupt", LIVE),
    "locked by another process": Case(
        "session_locked",
        "session_locked",
        # A repair that has nothing to do needs no lock.
        everything_else("session_locked", "session/close", "session/verify", "session/repair")
        | UNWATCHED
        | EXISTS,
    ),
    "no header": Case(
        "session_corrupt",
        "session_corrupt",
        everything_else("session_corrupt", "session/close", "session/verify", "session/delete")
        | UNWATCHED
        | EXISTS,
    ),
    "two files of one id": Case(None, None, LIVE),
    "a folder that turned read-only": Case(
        None,
        "storage_error",
        LIVE | dict.fromkeys(["session/archive", "session/delete", *COPIES], "storage_error"),
        is_open=True,
    ),
    "a full disk": Case(
        None, "storage_error", LIVE | dict.fromkeys(COPIES, "storage_error"), is_open=True
    ),
}
MALFORMED: Final = ["", "short", "../../../x", "session-a\n", "session a", "x" * 129, 12345678]


def test_every_method_on_a_session_is_in_the_matrix() -> None:
    on_sessions = {m.name for m in METHODS if "session_id" in get_type_hints(m.params)}
    assert set(EXAMPLES) == on_sessions
    kinds = {error.kind for error in ERRORS}
    for case in CASES.values():
        assert {case.expected(name) for name in EXAMPLES} - {None} <= kinds


# -- the states --------------------------------------------------------------------------------


def put(house: House, case: str) -> None:
    path = house.put(ENTRIES)
    disk: FaultDisk = house.disk
    content = disk.content(path)
    if case == "an unknown id":
        house.put(ENTRIES, "session-b")
        disk.unlink(path)
    elif case == "a bad line":
        disk.put(path, content + b"garbage\n")
    elif case == "no header":
        disk.put(path, b"garbage\n" + content)
    elif case == "two files of one id":
        disk.put(path.with_name(COPY), content)


class Trouble:
    """The troubles that befall the disk or the session while the daemon runs."""

    def __init__(self, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
        self.house = house
        self.disk: FaultDisk = house.disk
        self._patch = monkeypatch

    async def come(self, case: str, wire: Wire) -> None:
        await create(wire, OTHER, persist="never")
        if CASES[case].is_open:
            await wire.call("session/get", session_id=SESSION)
        if case == "archived":
            await wire.call("session/archive", session_id=SESSION)
            await wire.call("session/close", session_id=SESSION)
        elif case == "deleted":
            await wire.call("session/delete", session_id=SESSION)
        elif case == "a full disk":
            self.disk.capacity = 0
        elif case == "a folder that turned read-only":
            for name in (
                "create",
                "write",
                "pwrite",
                "truncate",
                "rename",
                "rename_new",
                "link",
                "unlink",
            ):
                self._patch.setattr(self.disk, name, read_only)

    @contextmanager
    def held(self, case: str) -> Iterator[None]:
        if case != "locked by another process":
            yield
            return
        (path,) = self.house.session_files()
        with owned(self.disk, path, self.house.layout.locks):
            yield


def read_only(*_args: Any) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


# -- the matrix --------------------------------------------------------------------------------


@one_backend
@pytest.mark.parametrize("method", EXAMPLES)
@pytest.mark.parametrize("case", CASES)
async def test_each_gets_its_own_error_and_changes_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch, case: str, method: str
) -> None:
    put(house, case)
    trouble = Trouble(house, monkeypatch)
    async with house.daemon() as daemon, daemon.connect() as wire:
        with trouble.held(case):
            await trouble.come(case, wire)
            before = house.contents()
            refused: Refusal | None = None
            try:
                await wire.call(method, session_id=SESSION, **EXAMPLES[method][1])
            except Refusal as refusal:
                refused = refusal
            after = house.contents()
        kind = refused.data["kind"] if refused is not None else None
        assert kind == CASES[case].expected(method), refused
        if refused is not None:
            assert after == before
            check(case, refused)
        house.disk.heal()
    assert house.disk.open_descriptors == 0


def check(case: str, refused: Refusal) -> None:
    """Check that an error has what its reader needs to go on."""
    match refused.data:
        case {"kind": "session_not_found", "session_id": session_id}:
            assert session_id == SESSION
        case {"kind": "session_corrupt", "line": line, "repairable": repairable}:
            assert (line, repairable) == ((4, True) if case == "a bad line" else (1, False))
        case {"kind": "session_locked", "holder": {"pid": pid}}:
            assert pid == 4242
        case {"kind": "storage_error", "errno": name}:
            assert name == ("ENOSPC" if case == "a full disk" else "EROFS")
        case other:
            assert other["kind"] in {
                "invalid_params",
                "lease_lost",
                "session_archived",
                "session_exists",
                "subscription_not_found",
            }


@one_backend
@pytest.mark.parametrize("method", EXAMPLES)
async def test_a_malformed_id_is_the_callers_error_whatever_is_asked(
    house: House, method: str
) -> None:
    path = house.put(ENTRIES)
    async with house.daemon() as daemon, daemon.connect() as wire:
        before = house.contents()
        for session_id in MALFORMED:
            params = {"session_id": session_id, **EXAMPLES[method][1]}
            refusal = await wire.refusal(method, **params)
            assert refusal.data["kind"] == "invalid_params"
            assert refusal.data["path"] == "session_id"
        assert house.contents() == before
    assert house.session_files() == [path]
