"""The real clock, ids and log behind the service."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import uuid_utils

from sessiond.model.settings import CompactionSettings
from sessiond.service.environment import NO_SUMMARIZER, Environment
from sessiond.service.policies import Policies
from sessiond.service.ports import Summarizer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["TOKENIZERS", "EntryIds", "InstalledTokenizers", "real_environment"]

TOKENIZERS: Final = "sessiond.tokenizers"
"""The group of entry points that count tokens: `words = "my_package:count"`."""

_ID_HEX_DIGITS: Final = 8
_IDS_PER_BLOCK: Final = 512


def real_environment(
    report_bug: Callable[[str, BaseException], str],
    compaction: CompactionSettings | None = None,
    summarizer: Summarizer = NO_SUMMARIZER,
) -> Environment:
    """What production runs on, with what is configured of compaction."""
    return Environment(
        now=_now,
        monotonic=time.monotonic,
        new_entry_id=EntryIds(),
        new_session_id=_new_session_id,
        new_epoch=_new_epoch,
        new_lease_id=_new_lease_id,
        file_stamp=_file_stamp,
        describe=_describe,
        report_bug=report_bug,
        report_trouble=_report_trouble,
        policies=Policies(compaction, InstalledTokenizers(), _report_trouble),
        summarizer=summarizer,
    )


class InstalledTokenizers:
    """The entry points of a group; looked for once, when the first is asked for."""

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] | None = None

    def names(self) -> Sequence[str]:
        """What they are called."""
        return list(self._points())

    def load(self, name: str) -> Callable[[str], int]:
        """The function behind a name. Raises whatever its module raises, LookupError for none."""
        count: Callable[[str], int] = self._points()[name].load()
        return count

    def _points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            # Who plugs none in does not pay for it.
            from importlib.metadata import entry_points

            self._found = {point.name: point for point in entry_points(group=TOKENIZERS)}
        return self._found


def _report_trouble(text: str) -> None:
    logging.getLogger("sessiond").warning("trouble", extra={"reason": text})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class EntryIds:
    """8 hex digits each; the session checks them against its own.

    Chance comes in blocks: a system call for every id would cost more than the rest of it. Threads
    that make copies take from the same: taking one and adding a block are one step each.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self) -> str:
        """One that was not given yet."""
        while True:
            try:
                return self._ids.pop()
            except IndexError:
                block = os.urandom(_ID_HEX_DIGITS // 2 * _IDS_PER_BLOCK).hex()
                starts = range(0, len(block), _ID_HEX_DIGITS)
                self._ids.extend([block[start : start + _ID_HEX_DIGITS] for start in starts])


def _new_session_id() -> str:
    """A UUIDv7, so that ids sort by the time they were made."""
    return str(uuid_utils.uuid7())


def _new_epoch() -> str:
    return os.urandom(8).hex()


def _new_lease_id() -> str:
    return os.urandom(16).hex()


def _describe() -> bytes:
    # Who never asks does not pay for it.
    from sessiond.schema import openrpc_bytes

    return openrpc_bytes()


def _file_stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
