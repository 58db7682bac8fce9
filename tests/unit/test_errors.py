"""Errors for calls that the system refuses, each of which tells a client what to do."""

from __future__ import annotations

import errno

import pytest

from sessiond.errors import Overloaded, StorageError, exhausted

WAIT_MS = 100


@pytest.mark.parametrize(
    ("failed", "name", "retryable"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "EMFILE", True),
        (OSError(errno.EROFS, "Read-only file system"), "EROFS", False),
        (OSError(9999, None), "EIO", True),
    ],
)
def test_a_call_that_the_system_refused_is_named(
    failed: OSError, name: str, retryable: bool
) -> None:
    for error in (failed, ExceptionGroup("", [failed, ExceptionGroup("", [failed])])):
        found = exhausted(error, WAIT_MS)
        assert isinstance(found, StorageError)
        assert (found.data()["errno"], found.data()["retryable"]) == (name, retryable)
        assert (failed.strerror or name) in found.message


@pytest.mark.parametrize("failed", [MemoryError(), RuntimeError("can't start new thread")])
def test_work_without_memory_or_thread_may_be_tried_later(failed: Exception) -> None:
    for error in (failed, ExceptionGroup("", [failed])):
        found = exhausted(error, WAIT_MS)
        assert isinstance(found, Overloaded)
        assert found.data()["retry_after_ms"] == WAIT_MS


@pytest.mark.parametrize(
    "bug",
    [
        ValueError("x"),
        RuntimeError("x"),
        TimeoutError(),
        ExceptionGroup("", [OSError(errno.EIO, "x"), ValueError("x")]),
    ],
)
def test_a_bug_is_nothing_that_the_system_refused(bug: Exception) -> None:
    assert exhausted(bug, WAIT_MS) is None
