"""Clock, ids, settings and reporters that the service is given.

They are passed in, so that tests use a clock and ids that do not change between runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from sessiond.dialects.places import Home
from sessiond.model.requests import Purpose
from sessiond.model.row import Rules
from sessiond.service.policies import Policies
from sessiond.service.ports import NoSummary, Summarizer
from sessiond.state.keys import KeySettings


class _Nobody:
    is_there = False

    async def summarize(self, prompt: str, purpose: Purpose) -> str:  # noqa: ARG002 - nothing is written
        raise NoSummary("there is none")


NO_SUMMARIZER: Summarizer = _Nobody()


# A path that no file can have.
NO_KEYS: Final = KeySettings(Path("/dev/null/no key file is configured"))


class Environment(Struct, frozen=True):
    """Dependencies of the service: real clock and ids in production, fixed ones in tests."""

    now: Callable[[], str]
    """Current time, RFC 3339 UTC with milliseconds."""
    monotonic: Callable[[], float]
    new_entry_id: Callable[[], str]
    """Source of entry ids; also called in worker threads, where copies are made."""
    new_entry_uuid: Callable[[], str]
    """Source of the ids of entries in files whose program gives them full UUIDs."""
    new_session_id: Callable[[], str]
    new_epoch: Callable[[], str]
    new_lease_id: Callable[[], str]
    """Source of lease ids that cannot be guessed: a client that sends the id has the lease."""
    file_stamp: Callable[[], str]
    """Time stamp for file names: YYYY-MM-DDTHH-MM-SS-ffffff, UTC."""
    describe: Callable[[], bytes]
    """Protocol as one OpenRPC document, JSON on one line. The first call takes a while."""
    report_bug: Callable[[str, BaseException], str]
    """Log an unexpected exception under the name of the work; return the incident id."""
    report_trouble: Callable[[str], None] = lambda _text: None
    """Log a failure of the outside that the daemon copes with."""
    policies: Policies = msgspec.field(default_factory=Policies)
    """Configured compaction settings, tokenizers and patterns of redaction."""
    summarizer: Summarizer = NO_SUMMARIZER
    """Writer of summaries if no client offers to write them."""
    key_settings: Callable[[], KeySettings] = lambda: NO_KEYS
    """Source of the keys of the secrets as it is configured now."""
    row_makers: Sequence[Sequence[str]] = ()
    """Commands of the processes that may read new files beside a scan, each of another process."""
    homes: Callable[[], Sequence[tuple[str, Home]]] = tuple
    """Folders in which programs may keep session files on this machine, each with its dialect."""

    def entry_ids(self, rules: Rules) -> Callable[[], str]:
        """Return the source of entry ids for a file."""
        return self.new_entry_uuid if rules.uuids else self.new_entry_id
