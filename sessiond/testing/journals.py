"""Conformance suite of `SessionLog`: its promises as checks for any implementation.

    @pytest.mark.parametrize("check", SESSION_LOG_CHECKS, ids=lambda check: check.__name__)
    def test_my_log_keeps_its_promises(check):
        check(lambda header: MyLog(header))

Each check makes logs of its own, whose first line is the header that the check gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from sessiond.journal.store import SessionLog

__all__ = ["SESSION_LOG_CHECKS", "MakeLog", "check_session_log"]

MakeLog = Callable[[bytes], SessionLog]

HEADER: Final = b'{"type":"session_header","id":"conformance"}'
LINES: Final = (
    b'{"n":1}',
    b"",
    '{"separators":"\u2028\u2029\x85"}'.encode(),
    b'{"a":\t1.50,\r "b":2}',
    b"x" * 70_000,
    b'{"n":6}',
)


def check_a_new_log_holds_its_header(make: MakeLog) -> None:
    """Check that ordinal 0 is the header, and that a header of several lines is several lines."""
    log = make(HEADER)
    assert log.line_count == 1
    assert log.read(0, 0) == [HEADER]
    log.close()
    log = make(b"\n".join([HEADER, *LINES]))
    assert log.read(0, len(LINES)) == [HEADER, *LINES]
    log.close()


def check_lines_come_back_as_they_went_in(make: MakeLog) -> None:
    """Check that lines are read byte for byte, in order, one by one and together."""
    log = make(HEADER)
    log.append(LINES[:1], sync=True)
    log.append(LINES[1:], sync=False)
    stored = [HEADER, *LINES]
    assert log.line_count == len(stored)
    for first in range(len(stored)):
        for last in range(first, len(stored)):
            assert log.read(first, last) == stored[first : last + 1]
    log.close()


def check_scattered_reads_keep_the_order_asked_for(make: MakeLog) -> None:
    """Check that scattered reads keep their order, backwards, with repeats, and when empty."""
    log = _filled(make)
    stored = [HEADER, *LINES]
    asked: tuple[Sequence[int], ...] = (
        [],
        [3],
        range(len(stored)),
        [6, 5, 4, 0, 1, 2],
        [2, 2, 3, 3, 0, 0],
        [0, 2, 3, 4, 6],
    )
    for seqs in asked:
        assert log.read_many(seqs) == [stored[seq] for seq in seqs]
    log.close()


def check_sizes_are_those_of_the_bytes(make: MakeLog) -> None:
    """Check that a line counts without its newline, and a span with all of its newlines."""
    log = _filled(make)
    stored = [HEADER, *LINES]
    for seq, line in enumerate(stored):
        assert log.line_bytes(seq) == len(line)
        assert log.span_bytes(seq, seq) == len(line) + 1
    assert log.span_bytes(0, len(LINES)) == sum(map(len, stored)) + len(stored)
    assert log.statistics().size_bytes == log.span_bytes(0, len(LINES))
    assert log.statistics().lines == len(stored)
    log.close()


def check_a_line_with_a_newline_is_refused_whole(make: MakeLog) -> None:
    """Check that a line with a newline raises AssertionError, and its batch is not stored."""
    log = make(HEADER)
    for lines in ([b"good", b"two\nlines"], [b"ends in one\n"]):
        try:
            log.append(lines, sync=True)
        except AssertionError:
            continue
        raise AssertionError("a line with a newline was taken")
    log.append([b"next"], sync=True)
    assert log.read(0, log.line_count - 1) == [HEADER, b"next"]
    log.close()


def check_syncing_changes_nothing_that_can_be_read(make: MakeLog) -> None:
    """Check that a sync may come at any time, also repeatedly, and changes no line."""
    log = make(HEADER)
    log.sync()
    log.append([b"a"], sync=False)
    log.sync()
    log.sync()
    assert log.read(0, 1) == [HEADER, b"a"]
    log.close()


def check_nothing_is_left_over_without_a_failure(make: MakeLog) -> None:
    """Check that `take_found` is empty if no foreign writer wrote and no append failed."""
    log = _filled(make)
    assert log.take_found() == []
    assert log.statistics().failures == 0
    log.close()


def check_only_what_blocks_has_a_path(make: MakeLog) -> None:
    """Check that only a blocking log may have a path, which names the file with the bytes."""
    log = _filled(make)
    assert log.blocking or log.path is None
    assert log.path is None or isinstance(log.path, Path)
    log.close()


def check_closing_twice_is_harmless(make: MakeLog) -> None:
    """Check that a second close does nothing."""
    log = _filled(make)
    log.close()
    log.close()


SESSION_LOG_CHECKS: Final[tuple[Callable[[MakeLog], None], ...]] = (
    check_a_new_log_holds_its_header,
    check_lines_come_back_as_they_went_in,
    check_scattered_reads_keep_the_order_asked_for,
    check_sizes_are_those_of_the_bytes,
    check_a_line_with_a_newline_is_refused_whole,
    check_syncing_changes_nothing_that_can_be_read,
    check_nothing_is_left_over_without_a_failure,
    check_only_what_blocks_has_a_path,
    check_closing_twice_is_harmless,
)


def check_session_log(make: MakeLog) -> None:
    """Run every check, one after the other."""
    for check in SESSION_LOG_CHECKS:
        check(make)


def _filled(make: MakeLog) -> SessionLog:
    log = make(HEADER)
    log.append(LINES, sync=True)
    return log
