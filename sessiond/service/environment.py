"""The clock, ids, settings and reporters that the service is given.

They are passed in, so that tests use a clock and ids that do not change between runs.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from sessiond.service.policies import Policies
from sessiond.service.ports import NoSummary, Summarizer

__all__ = ["NO_SUMMARIZER", "Environment"]


class _Nobody:
    is_there = False

    async def summarize(self, prompt: str) -> str:  # noqa: ARG002 - nobody is asked
        raise NoSummary("there is none")


NO_SUMMARIZER: Summarizer = _Nobody()


class Environment(Struct, frozen=True):
    """What the service is given: in production the real clock and ids, in tests ones that stand still."""

    now: Callable[[], str]
    """RFC 3339 UTC with milliseconds."""
    monotonic: Callable[[], float]
    new_entry_id: Callable[[], str]
    """Also called in worker threads, where copies are made."""
    new_session_id: Callable[[], str]
    new_epoch: Callable[[], str]
    new_lease_id: Callable[[], str]
    """Nobody can guess it: whoever names it has the lease."""
    file_stamp: Callable[[], str]
    """For file names: YYYY-MM-DDTHH-MM-SS-ffffff, UTC."""
    describe: Callable[[], bytes]
    """The protocol as one OpenRPC document, JSON on one line. The first call takes a while."""
    report_bug: Callable[[str, BaseException], str]
    """Log an exception that should not be, under the name of the work; gives the incident id."""
    report_trouble: Callable[[str], None] = lambda _text: None
    """Log what went wrong outside and is being coped with."""
    policies: Policies = msgspec.field(default_factory=Policies)
    """When a context is too large, as configured, and who counts its tokens."""
    summarizer: Summarizer = NO_SUMMARIZER
    """Who writes summaries when no client does."""
