"""Real clock, ids and log of the service."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uuid_utils

from sessiond.dialects import DIALECTS
from sessiond.dialects.agents.places import AGENT_PLACES
from sessiond.dialects.places import Home, places_of
from sessiond.limits import ROW_MAKERS_MAX
from sessiond.model.settings import CompactionSettings
from sessiond.service.environment import NO_SUMMARIZER, Environment
from sessiond.service.policies import Policies
from sessiond.service.ports import Summarizer
from sessiond.system import SYSTEM

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

TOKENIZERS: Final = "sessiond.tokenizers"
"""Group of entry points that count tokens: `words = "my_package:count"`."""

ROW_MAKER: Final = (sys.executable, "-P", "-m", "sessiond.daemon.row_maker")
"""Command of a process that reads new files for a scan."""

_ID_HEX_DIGITS: Final = 8
_IDS_PER_BLOCK: Final = 512


def real_environment(
    report_bug: Callable[[str, BaseException], str],
    compaction: CompactionSettings | None = None,
    summarizer: Summarizer = NO_SUMMARIZER,
) -> Environment:
    """Return the environment of production, with the configured compaction settings."""
    return Environment(
        now=Clock(),
        monotonic=time.monotonic,
        new_entry_id=EntryIds(),
        new_entry_uuid=lambda: str(uuid_utils.uuid4()),
        new_session_id=_new_session_id,
        new_epoch=_new_epoch,
        new_lease_id=_new_lease_id,
        file_stamp=_file_stamp,
        describe=_describe,
        report_bug=report_bug,
        report_trouble=_report_trouble,
        policies=Policies(compaction, InstalledTokenizers(), _report_trouble),
        summarizer=summarizer,
        row_makers=_row_makers(),
        homes=_homes,
    )


def _row_makers() -> Sequence[Sequence[str]]:
    """Return the command of a row maker for each processor that a scan leaves free."""
    return [ROW_MAKER] * min(SYSTEM.processors() - 1, ROW_MAKERS_MAX)


def _homes() -> Sequence[tuple[str, Home]]:
    home = str(Path.home())
    kinds = [dialect.name for dialect in DIALECTS]
    own = [(kind, one) for kind in kinds for one in places_of(kind).homes(os.environ, home)]
    agents = AGENT_PLACES.items()
    others = [(kind, one) for kind, at in agents for one in at.homes(os.environ, home)]
    return [*own, *((kind, Home(folder)) for kind, folder in others)]


class InstalledTokenizers:
    """Entry points of the tokenizer group, looked up once, on first use."""

    def __init__(self) -> None:
        self._found: dict[str, EntryPoint] | None = None

    def names(self) -> Sequence[str]:
        """Return the names of the tokenizers."""
        return list(self._points())

    def load(self, name: str) -> Callable[[str], int]:
        """Return the function of a name. Raise LookupError, or any error of its module."""
        count: Callable[[str], int] = self._points()[name].load()
        return count

    def _points(self) -> dict[str, EntryPoint]:
        if self._found is None:
            # Imported here: a daemon without tokenizers does not load the module.
            from importlib.metadata import entry_points

            self._found = {point.name: point for point in entry_points(group=TOKENIZERS)}
        return self._found


def _report_trouble(text: str) -> None:
    logging.getLogger("sessiond").warning("trouble", extra={"reason": text})


class Clock:
    """The clock of the daemon: RFC 3339 UTC with milliseconds.

    The text of a second is made once, because every batch of appends asks for the time. The second
    and its text are one tuple, so threads that ask at once read no half of a change.
    """

    def __init__(self) -> None:
        self._last = (-1, "")

    def __call__(self) -> str:
        """Return the current time."""
        seconds, millis = divmod(time.time_ns() // 1_000_000, 1000)
        last, text = self._last
        if last != seconds:
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
            self._last = (seconds, text)
        return f"{text}.{millis:03d}Z"


class EntryIds:
    """Source of entry ids, 8 hex digits each; the session checks them against its own ids.

    Random bytes come in blocks: one system call per id would cost more than the rest of the id.
    Threads that make copies share the source: taking an id and adding a block are one step each.
    """

    def __init__(self) -> None:
        self._ids: list[str] = []

    def __call__(self) -> str:
        """Return an id that was not returned before."""
        while True:
            try:
                return self._ids.pop()
            except IndexError:
                block = os.urandom(_ID_HEX_DIGITS // 2 * _IDS_PER_BLOCK).hex()
                starts = range(0, len(block), _ID_HEX_DIGITS)
                self._ids.extend([block[start : start + _ID_HEX_DIGITS] for start in starts])


def _new_session_id() -> str:
    """Return a UUIDv7, so that ids sort by creation time."""
    return str(uuid_utils.uuid7())


def _new_epoch() -> str:
    return os.urandom(8).hex()


def _new_lease_id() -> str:
    return os.urandom(16).hex()


def _describe() -> bytes:
    # Imported here: a daemon that is never asked does not load the schema.
    from sessiond.schema import openrpc_bytes

    return openrpc_bytes()


def _file_stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%f")
