"""Conformance suite of `SessionStore`: its promises as checks for any implementation.

    @pytest.mark.parametrize("check", SESSION_STORE_CHECKS, ids=lambda check: check.__name__)
    def test_my_store_keeps_its_promises(check, tmp_path):
        check(lambda: MyStore(tmp_path))

Each call of the function that a check is given makes one more store at the same place, as another
daemon would have it. A check closes every session and every store that it opened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Final

from msgspec.structs import replace

from sessiond.catalog.fulltext import Found as SearchHit
from sessiond.catalog.query import Query
from sessiond.catalog.rows import Mark, Stored
from sessiond.dialects.native.dialect import NATIVE
from sessiond.errors import InvalidParams, SessionExists, SessionLocked, SessionNotFound
from sessiond.journal.store import Found, Overtaken
from sessiond.model.entries import Header
from sessiond.service.log.open_session import OpenSession
from sessiond.service.log.session_info import Persist
from sessiond.service.progress import LatestProgress
from sessiond.service.store.listed import Scanner, snapshot
from sessiond.service.store.session_store import SessionStore

__all__ = ["SESSION_STORE_CHECKS", "MakeStore", "check_session_store"]

MakeStore = Callable[[], SessionStore]

_ID: Final = "a-conforming-session"
_TIME: Final = "2026-01-15T10:30:00.000Z"
_ENTRIES_AT_ONCE: Final = 3


def check_a_created_session_can_be_opened_by_a_later_store(make: MakeStore) -> None:
    """Check that a session has its lines and its epoch in every store of the place."""
    with _store(make) as store:
        assert not store.has(_ID)
        opened = _create(store)
        _say(opened, "one")
        _say(opened, "two", "three")
        lines, epoch = _lines(opened), opened.epoch
        assert lines[0] == NATIVE.encode_header(opened.header)
        _close(store, opened)
        assert store.has(_ID)
    with _store(make) as store:
        assert store.has(_ID)
        again = store.open(_ID)
        assert (_lines(again), again.epoch, again.created) == (lines, epoch, False)
        assert again.session.seq == _ENTRIES_AT_ONCE
        _say(again, "four")
        assert _lines(again)[:-1] == lines
        _close(store, again)


def check_an_id_is_given_once(make: MakeStore) -> None:
    """Check that a second session of an id is refused, however the session would be made."""
    with _store(make) as store:
        _close(store, _create(store))
        with _refused(SessionExists):
            _create(store)
        with _refused(SessionExists):
            _create(store, "on_assistant")
        with _refused(SessionExists):
            store.make(_ID, [[_header_line()]])
        with _refused(SessionExists):
            store.require_free(_ID)
        store.require_free("another-session")


def check_an_unknown_id_is_refused(make: MakeStore) -> None:
    """Check that no act finds a session that was never made."""
    with _store(make) as store:
        acts: list[Callable[[str], object]] = [
            store.open,
            store.written_at,
            store.restore,
            store.purge,
            store.repair,
            lambda name: store.discard(name, None),
            lambda name: store.verify(name, None, LatestProgress()),
        ]
        for act in acts:
            with _refused(SessionNotFound):
                act(_ID)


def check_a_copy_is_stored_as_a_whole_or_not_at_all(make: MakeStore) -> None:
    """Check that a copy whose lines end in an error leaves nothing, and that its id stays free."""

    def chunks() -> Iterator[Sequence[bytes]]:
        yield [_header_line(), _line("e1", None)]
        raise InvalidParams("the rest is missing", path="")

    with _store(make) as store:
        with _refused(InvalidParams):
            store.make(_ID, chunks())
        assert not store.has(_ID)
        lines = [_header_line(), _line("e1", None), _line("e2", "e1")]
        opened = store.make(_ID, [lines[:2], lines[2:]])
        assert opened.created
        assert _lines(opened) == lines
        _close(store, opened)


def check_a_promotion_stores_a_session_of_the_memory(make: MakeStore) -> None:
    """Check that a session in memory is in no store, and that a promotion stores all of it."""
    with _store(make) as store:
        opened = _create(store, "never")
        _say(opened, "one")
        assert not opened.journal.blocking
        assert not store.has(_ID)
        more = _line("more", "one")
        before = snapshot(opened)
        store.promote(opened, "immediate", [more], late=False)
        for seen in (before, snapshot(opened)):
            # The index has the line next, and its row comes behind that.
            row = store.row(seen)
            assert row is None or row.mark.seen_seq == seen.info.seq == 1
        opened.adopt([Found(more, external=False)])
        assert opened.journal.blocking
        lines = _lines(opened)
        assert lines[-1] == more
        _close(store, opened)
        again = store.open(_ID)
        assert _lines(again) == lines
        _close(store, again)


def check_a_draft_comes_to_its_place_with_an_answer(make: MakeStore) -> None:
    """Check that lists show a session of `on_assistant` as persisted from its first answer on."""
    with _store(make) as store:
        opened = _create(store, "on_assistant")
        _say(opened, "one")
        assert opened.pending
        assert not opened.info().persisted
        _close(store, opened)
        opened = store.open(_ID)
        assert opened.pending
        line = _line("two", "one", "assistant")
        assert opened.store([line], sync=True, has_assistant=True) is None
        opened.adopt([Found(line, external=False)])
        assert not opened.pending
        _close(store, opened)
    with _store(make) as store:
        opened = store.open(_ID)
        assert opened.info().persisted
        assert not opened.pending
        _close(store, opened)


def check_the_archive_is_where_a_session_was_left(make: MakeStore) -> None:
    """Check that an archived session is archived in a later store too, until it is brought back."""
    with _store(make) as store:
        opened = _create(store)
        for _ in range(2):
            store.archive(opened)
            assert opened.archived
        _close(store, opened)
    with _store(make) as store:
        opened = store.open(_ID)
        assert opened.archived
        for _ in range(2):
            store.unarchive(opened)
            assert not opened.archived
        _close(store, opened)
        opened = store.open(_ID)
        assert not opened.archived
        _close(store, opened)


def check_a_deleted_session_comes_back_whole(make: MakeStore) -> None:
    """Check that the trash keeps a session, shows it, and gives it back with its epoch."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one")
        lines, epoch = _lines(opened), opened.epoch
        _close(store, opened)
        for _ in range(2):
            store.discard(_ID, None)
            assert not store.has(_ID)
        with _refused(SessionNotFound):
            store.open(_ID)
        (trashed,) = store.trashed(10, None).sessions
        assert (trashed.session_id, trashed.cwd, trashed.bytes > 0) == (_ID, "/project", True)
    with _store(make) as store:
        store.restore(_ID)
        assert store.trashed(10, None).sessions == []
        with _refused(SessionExists):
            store.restore(_ID)
        opened = store.open(_ID)
        assert (_lines(opened), opened.epoch) == (lines, epoch)
        _close(store, opened)


def check_the_trash_has_pages(make: MakeStore) -> None:
    """Check that pages of the trash name each deleted session once."""
    with _store(make) as store:
        names = [f"deleted-session-{at}" for at in range(5)]
        for name in names:
            _close(store, _create(store, session_id=name))
            store.discard(name, None)
        found: list[str] = []
        cursor: str | None = None
        for _ in range(len(names)):
            page = store.trashed(2, cursor)
            found += [one.session_id for one in page.sessions]
            if (cursor := page.next_cursor) is None:
                break
        assert sorted(found) == names


def check_a_purged_session_is_gone(make: MakeStore) -> None:
    """Check that only a deleted session is purged, and that nothing brings it back."""
    with _store(make) as store:
        _close(store, _create(store))
        with _refused(SessionExists):
            store.purge(_ID)
        store.discard(_ID, None)
        store.erase(_ID, store.purge(_ID))
        store.purged(_ID)
        assert store.trashed(10, None).sessions == []
        with _refused(SessionNotFound):
            store.restore(_ID)
        opened = _create(store)
        assert len(_lines(opened)) == 1
        _close(store, opened)


def check_a_new_session_has_another_epoch_than_the_one_before(make: MakeStore) -> None:
    """Check that a session made anew under the id of a deleted one cannot be taken for that one."""
    with _store(make) as store:
        opened = _create(store)
        epoch = opened.epoch
        _close(store, opened)
        store.discard(_ID, None)
        opened = _create(store)
        assert opened.epoch != epoch
        _close(store, opened)


def check_a_scan_lists_what_is_stored(make: MakeStore) -> None:
    """Check that lists follow creations, changes, the archive and deletions."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one")
        _close(store, opened)
        scanner = _scanner(store)
        assert _listed(store, scanner) == {_ID: (2, False)}
        opened = store.open(_ID)
        _say(opened, "two")
        store.archive(opened)
        _close(store, opened)
        scanner.expect(_ID)
        assert _listed(store, scanner) == {_ID: (3, True)}
        store.discard(_ID, None)
        scanner.expect(_ID)
        assert _listed(store, scanner) == {}
        store.restore(_ID)
        scanner.expect(_ID)
        assert _listed(store, scanner) == {_ID: (3, True)}


def _row(store: SessionStore, opened: OpenSession) -> Stored:
    row = store.row(snapshot(opened))
    assert row is not None, "the log is open"
    return row


def check_an_open_session_is_listed_by_its_row(make: MakeStore) -> None:
    """Check that the row of an open session shows its lines, also those behind the last scan."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one")
        row = _row(store, opened)
        assert (row.session_id, row.mark.epoch, row.mark.seen_seq) == (_ID, opened.epoch, 1)
        store.catalog.put([row], [])
        _say(opened, "two")
        store.catalog.put([_row(store, opened)], [])
        ((info, *_),), _more = store.catalog.page(Query(), 10, None)
        assert b'"seq":2' in info
        _close(store, opened)


def check_a_row_is_that_of_the_moment_of_its_snapshot(make: MakeStore) -> None:
    """Check that a row marks no line that its description lacks, if a line was stored behind the snapshot."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one")
        seen = snapshot(opened)
        # The thread of the log has the line before the index has it.
        line = _line("two", "one")
        assert opened.store([line], sync=True, has_assistant=False) is None
        for _ in range(2):
            row = store.row(seen)
            assert row is not None, "the log is open"
            assert (seen.info.seq, row.mark.seen_seq) == (1, 1)
            seen = snapshot(opened)
        opened.journal.take_found()
        opened.adopt([Found(line, external=False)])
        assert _row(store, opened).mark.seen_seq == 2
        _close(store, opened)


def check_the_texts_of_stored_lines_are_read_once(make: MakeStore) -> None:
    """Check that a search gets the texts behind what it has, up to the recorded line."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one", "two")
        _close(store, opened)
        scanner = _scanner(store)
        _listed(store, scanner)
        known = store.catalog.known(_ID)
        assert known is not None
        batches = list(store.texts_behind(known, None))
        texts = [text for _, some in batches for text in some]
        assert [text.seq for text in texts][-2:] == [1, 2]
        assert "says one" in texts[-2].said.text
        hit, place = SearchHit(_ID, texts[-2].entry_id, 1, ""), texts[-2].place
        assert place is not None
        other = replace(place, mark=place.mark ^ 1)
        assert store.check_hits(known, [(hit, place), (hit, other)]) == [True, False]
        indexed = batches[-1][0]
        assert indexed.seq == known.mark.seen_seq
        opened = store.open(_ID)
        _say(opened, "three")
        _close(store, opened)
        scanner.expect(_ID)
        _listed(store, scanner)
        known = store.catalog.known(_ID)
        assert known is not None
        texts = [text for _, some in store.texts_behind(known, indexed) for text in some]
        assert [text.seq for text in texts] == [3]
        there = store.whereabouts(known)
        assert (there.is_agents, there.root) == (False, None)


def check_an_entry_is_found_by_its_id(make: MakeStore) -> None:
    """Check that the session of an entry is found, unless the caller knows that session."""
    with _store(make) as store:
        for name in ("first-session", "second-session"):
            opened = _create(store, session_id=name)
            _say(opened, f"entry-of-{name}")
            _close(store, opened)
        assert store.find_entry("entry-of-first-session", [], []) == "first-session"
        assert store.find_entry("entry-of-first-session", [], ["first-session"]) is None
        assert store.find_entry("entry-of-no-session", [], []) is None


def check_a_whole_session_verifies(make: MakeStore) -> None:
    """Check that nothing is found wrong with a session, open or not."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one", "two")
        found = store.verify(_ID, opened, LatestProgress())
        assert (found.ok, found.entries, found.lines) == (True, 2, 3)
        _close(store, opened)
        assert store.verify(_ID, None, LatestProgress()) == found
        plan = store.plan_repair(_ID, None, dry_run=True, progress=LatestProgress())
        assert (plan.kept, plan.dropped, plan.reason is not None) == (3, 0, True)


def check_a_repair_leaves_the_lines_that_parse(make: MakeStore) -> None:
    """Check that a repair drops bad lines alone, and begins a new epoch."""
    with _store(make) as store:
        opened = _create(store)
        _say(opened, "one")
        epoch, good = opened.epoch, _lines(opened)
        opened.journal.append([b"{no entry", _line("two", "one")], sync=True)
        good.append(_line("two", "one"))
        _close(store, opened)
        opened = store.open(_ID)
        assert opened.read_only_reason == "bad_line"
        _close(store, opened)
        plan = store.plan_repair(_ID, None, dry_run=True, progress=LatestProgress())
        assert (plan.kept, plan.dropped, plan.dropped_lines) == (3, 1, [3])
        done = store.repair(_ID)
        assert (done.repaired, done.dropped) == (True, 1)
        opened = store.open(_ID)
        assert (_lines(opened), opened.read_only) == (good, False)
        assert opened.epoch != epoch
        _close(store, opened)


def check_a_session_ages_from_its_last_line(make: MakeStore) -> None:
    """Check that an append makes a session young, by the store's own clock."""
    with _store(make) as store:
        opened = _create(store)
        before = store.written_at(_ID)
        assert before <= store.now() * 1e9
        _say(opened, "one")
        assert before <= store.written_at(_ID) <= store.now() * 1e9
        scanner = _scanner(store)
        _listed(store, scanner)
        # The query may name sessions that are younger, never too few.
        later = int((store.now() + 1) * 1e9)
        assert store.catalog.ids(store.older(later)) == [_ID]
        store.archive(opened)
        _close(store, opened)
        scanner.expect(_ID)
        _listed(store, scanner)
        assert store.catalog.ids(store.older(later)) == []


def check_lease_epochs_rise(make: MakeStore) -> None:
    """Check that a later store gives higher numbers than every store before."""
    with _store(make) as store:
        numbers = [store.next_lease_epoch() for _ in range(3)]
        assert numbers == sorted(set(numbers))
    with _store(make) as store:
        assert store.next_lease_epoch() > numbers[-1]


def check_two_writers_make_one_order(make: MakeStore) -> None:
    """Check that of two writers that do not know of each other, both have all lines in one order.

    A store may keep a session to its first writer; the second one then waits for the first one's end.
    """
    with _store(make) as store, _store(make) as other:
        first = _create(store)
        _say(first, "one")
        try:
            second = other.open(_ID)
        except SessionLocked:
            _close(store, first)
            second = other.open(_ID)
            assert _lines(second) == [_header_line(), _line("one", None)]
            _close(other, second)
            return
        names = count()
        for writer, reader in [(first, second), (second, first)] * 3:
            line = _line(f"rival-{next(names)}", "one")
            writer.journal.append([line], sync=True)
            late = _line(f"rival-{next(names)}", "one")
            with _refused(Overtaken):
                reader.journal.append([late], sync=True)
            assert [found.line for found in reader.journal.take_found()] == [line]
            reader.journal.append([late], sync=True)
            writer.journal.look()
            assert [found.line for found in writer.journal.take_found()] == [late]
            assert _lines(first) == _lines(second)
        line, late = _line("last", "one"), _line("later", "one")
        first.journal.append([line], sync=True)
        second.journal.append([late], sync=True, late=True)
        assert [found.line for found in second.journal.take_found()] == [line]
        assert _lines(second)[-2:] == [line, late]
        _close(store, first)
        _close(other, second)
        third = other.open(_ID)
        assert _lines(third)[-2:] == [line, late]
        _close(other, third)


SESSION_STORE_CHECKS: Final[tuple[Callable[[MakeStore], None], ...]] = (
    check_a_created_session_can_be_opened_by_a_later_store,
    check_an_id_is_given_once,
    check_an_unknown_id_is_refused,
    check_a_copy_is_stored_as_a_whole_or_not_at_all,
    check_a_promotion_stores_a_session_of_the_memory,
    check_a_draft_comes_to_its_place_with_an_answer,
    check_the_archive_is_where_a_session_was_left,
    check_a_deleted_session_comes_back_whole,
    check_the_trash_has_pages,
    check_a_purged_session_is_gone,
    check_a_new_session_has_another_epoch_than_the_one_before,
    check_a_scan_lists_what_is_stored,
    check_an_open_session_is_listed_by_its_row,
    check_a_row_is_that_of_the_moment_of_its_snapshot,
    check_the_texts_of_stored_lines_are_read_once,
    check_an_entry_is_found_by_its_id,
    check_a_whole_session_verifies,
    check_a_repair_leaves_the_lines_that_parse,
    check_a_session_ages_from_its_last_line,
    check_lease_epochs_rise,
    check_two_writers_make_one_order,
)


def check_session_store(make: Callable[[], MakeStore]) -> None:
    """Run every check at a place of its own, one after the other."""
    for check in SESSION_STORE_CHECKS:
        check(make())


# -- what the checks share -----------------------------------------------------------


@contextmanager
def _store(make: MakeStore) -> Generator[SessionStore]:
    store = make()
    try:
        yield store
    finally:
        store.close()


def _header(session_id: str = _ID) -> Header:
    return Header(version=1, id=session_id, timestamp=_TIME, cwd="/project")


def _header_line() -> bytes:
    return NATIVE.encode_header(_header())


def _line(entry_id: str, parent_id: str | None, role: str = "user") -> bytes:
    parent = b"null" if parent_id is None else b'"%s"' % parent_id.encode()
    return (
        b'{"type":"message","id":"%s","parent_id":%s,"timestamp":"%s",'
        b'"message":{"role":"%s","content":"says %s"}}'
        % (entry_id.encode(), parent, _TIME.encode(), role.encode(), entry_id.encode())
    )


def _create(
    store: SessionStore, persist: Persist = "immediate", session_id: str = _ID
) -> OpenSession:
    return store.create(_header(session_id), persist, None)


def _say(opened: OpenSession, *ids: str) -> None:
    """Append entries, each below the last one, and index them."""
    session, lines = opened.session, list[bytes]()
    parent = session.id_of(session.seq) if session.seq else None
    for entry_id in ids:
        lines.append(_line(entry_id, parent))
        parent = entry_id
    assert opened.store(lines, sync=True, has_assistant=False) is None
    found = opened.journal.take_found()
    opened.adopt([*found, *(Found(line, external=False) for line in lines)])


def _lines(opened: OpenSession) -> list[bytes]:
    return opened.journal.read(0, opened.journal.line_count - 1)


def _close(store: SessionStore, opened: OpenSession) -> None:
    store.settle(opened)
    opened.journal.close()


def _scanner(store: SessionStore) -> Scanner:
    return store.scanner(lambda _session_id: False)


def _listed(store: SessionStore, scanner: Scanner) -> dict[str, tuple[int, bool]]:
    """Scan; return the lines and the archive's flag of each session that lists show."""
    told: list[Stored] = []
    scanner.prepare()

    def put(rows: list[tuple[Stored, Mark | None]], gone: list[str]) -> list[Stored]:
        _, stored = store.catalog.put_read(rows, gone)
        told.extend(stored)
        return stored

    scanner.run(put, lambda _done, _total: None)
    assert not scanner.is_behind
    known = {row.session_id: row for row in store.catalog.all() if row.listed}
    shown = {name: store.catalog.shown(name) for name in known}
    return {
        name: (known[name].mark.seen_seq + 1, one.archived)
        for name, one in shown.items()
        if one is not None
    }


@contextmanager
def _refused(kind: type[Exception]) -> Generator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
