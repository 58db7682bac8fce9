"""Tables of signals and presence: one turn behind another, bounded, and seen with the session's row."""

from __future__ import annotations

import time

import pytest
from msgspec import structs

from sessiond.service.database.company_rows import Sender, SenderChange, StoredSignal
from sessiond.service.database.database import SessionDatabase
from tests.kit.limits import set_limits

pytestmark = pytest.mark.usefixtures("clock")

SENDER = Sender("a-sender", "a-daemon", 0, 0, is_open=True)


@pytest.fixture
def number(database: SessionDatabase) -> int:
    head = database.create("a-session", "epoch-1", [[b'{"type":"session"}']], "placed")
    assert head is not None
    return head.number


def change(  # noqa: PLR0913 - what a change may say
    number: int,
    turn: int,
    first: int,
    last: int,
    *,
    presence: int = 0,
    body: bytes | None = None,
    kept_from: int = 0,
) -> SenderChange:
    """Return a change with the signals `first` to `last`."""
    signals = [StoredSignal("a-sender", one, 5, b"s-%d" % one) for one in range(first, last + 1)]
    sender = structs.replace(SENDER, ordinal=last, presence=presence)
    return SenderChange(number, sender, turn, body, signals, kept_from)


def seen(database: SessionDatabase, number: int) -> tuple[Sender, ...]:
    (head,) = database.heads([number])
    found = database.find("a-session")
    assert found is not None
    assert found.senders == head.senders
    assert head.senders is not None
    return head.senders


def ordinals(database: SessionDatabase, number: int, first: int = 0, last: int = 100) -> list[int]:
    found = database.company.signals(number, {"a-sender": (first, last), "missing": (0, 9)})
    return sorted(one.ordinal for one in found)


def test_a_row_shows_its_senders(database: SessionDatabase, number: int) -> None:
    assert seen(database, number) == ()
    database.company.change(change(number, 1, 1, 3))
    other = SenderChange(number, structs.replace(SENDER, name="another"), 1, b"present")
    database.company.change(other)
    a_sender = structs.replace(SENDER, ordinal=3)
    assert seen(database, number) == (a_sender, structs.replace(SENDER, name="another"))
    assert database.company.signals(number, {"a-sender": (1, 2)}) == [
        StoredSignal("a-sender", 2, 5, b"s-2")
    ]
    assert database.company.signals(number + 1, {"a-sender": (0, 9)}) == []


def test_an_earlier_turn_changes_nothing(database: SessionDatabase, number: int) -> None:
    database.company.change(change(number, 2, 1, 2))
    for late in (change(number, 1, 1, 9), change(number, 2, 1, 9)):
        database.company.change(late)
        assert (seen(database, number)[0].ordinal, ordinals(database, number)) == (2, [1, 2])
    # The signals of before, written again with more.
    database.company.change(change(number, 3, 1, 3))
    assert (seen(database, number)[0].ordinal, ordinals(database, number)) == (3, [1, 2, 3])


def test_presence_stays_unless_it_is_given(database: SessionDatabase, number: int) -> None:
    company = database.company
    company.change(change(number, 1, 1, 1, presence=4))
    # A row that was lost has no presence until its daemon gives the presence.
    assert seen(database, number)[0].presence == 0
    company.change(change(number, 2, 2, 2, presence=5, body=b"\x00bytes"))
    company.change(change(number, 3, 3, 3, presence=6))
    assert seen(database, number) == (structs.replace(SENDER, ordinal=3, presence=5),)
    (stored,) = company.presences(number, ["a-sender", "missing"])
    assert (stored.sender, stored.presence, stored.body) == ("a-sender", 5, b"\x00bytes")


def test_signals_go_that_their_sender_does_not_keep(database: SessionDatabase, number: int) -> None:
    database.company.change(change(number, 1, 1, 4))
    database.company.change(change(number, 2, 5, 5, kept_from=3))
    assert ordinals(database, number) == [3, 4, 5]


def test_a_read_takes_the_newest_bytes(
    database: SessionDatabase, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.company.change(change(number, 1, 1, 9))
    set_limits(monkeypatch, SIGNALS_READ_BYTES_MAX=8)
    assert ordinals(database, number) == [8, 9]
    assert ordinals(database, number, last=4) == [3, 4]


def test_the_senders_of_a_dead_daemon_end(database: SessionDatabase, number: int) -> None:
    database.company.change(change(number, 1, 1, 1))
    database.company.end_of_daemons(["another"])
    assert seen(database, number)[0].is_open
    database.company.end_of_daemons(["another", "a-daemon"])
    assert seen(database, number) == (structs.replace(SENDER, ordinal=1, is_open=False),)
    database.company.change(change(number, 2, 2, 2))
    assert seen(database, number) == (structs.replace(SENDER, ordinal=2),)


def test_time_removes_signals_and_then_senders(
    database: SessionDatabase, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    company = database.company
    company.change(change(number, 1, 1, 2))
    company.clean()
    assert ordinals(database, number) == [1, 2]
    set_limits(monkeypatch, SIGNALS_KEPT_SECONDS=-1.0)
    # A signal of old, as one that a dump brought back, is not read.
    assert ordinals(database, number) == []
    company.clean()
    set_limits(monkeypatch, SIGNALS_KEPT_SECONDS=60.0)
    assert ordinals(database, number) == []
    # The daemon has noted nothing for so long.
    database.beat("another", [])
    set_limits(monkeypatch, SENDER_KEPT_SECONDS=-1.0)
    company.clean()
    assert seen(database, number) == (structs.replace(SENDER, ordinal=2, is_open=False),)
    company.clean()
    assert seen(database, number) == ()


def test_the_senders_of_a_daemon_that_is_there_stay(
    database: SessionDatabase, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.company.change(change(number, 1, 1, 1))
    set_limits(monkeypatch, SENDER_KEPT_SECONDS=0.5)
    time.sleep(0.6)
    database.beat("a-daemon", [number])
    database.company.clean()
    assert seen(database, number)[0].is_open


def test_a_purge_removes_signals_and_senders(database: SessionDatabase, number: int) -> None:
    database.company.change(change(number, 1, 1, 1))
    database.delete(database.heads([number])[0])
    database.purge("a-session")
    (head,) = database.heads([number])
    assert (head.senders, ordinals(database, number)) == ((), [])
