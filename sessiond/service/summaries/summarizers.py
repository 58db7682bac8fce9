"""Writers of summaries: clients that offered it, one after another, else the configured command.

Law: the daemon calls no model. A writer may be slow, wrong or gone; then the next one is asked.
If all fail, the caller gets the plan back, with the failure of each. Only clients that offered the
purpose are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from sessiond import typed
from sessiond.errors import SummarizerUnavailable
from sessiond.limits import SUMMARIZE_SECONDS, SUMMARIZERS_ASKED_MAX, SUMMARY_BYTES_MAX
from sessiond.model.plans import (
    CompactionPlan,
    PlanBranchSummaryResult,
    PlanMergeResult,
    SquashPlan,
)
from sessiond.model.requests import Purpose, Reply, SummarizeParams
from sessiond.service.client_request import ask_client
from sessiond.service.ports import Consulted, NoSummary, Summarizer


class Tried(Struct, frozen=True):
    """Writer that was asked in vain, by its name, and why it failed."""

    by: str
    reason: str


class Wanted(Struct, frozen=True):
    """Summary that the daemon needs: the request to its writer, and what a failure tells."""

    request: SummarizeParams
    plan: CompactionPlan | PlanMergeResult | SquashPlan | PlanBranchSummaryResult
    """Plan that the caller gets if every writer fails."""
    instead: str
    """Advice for a caller that writes the summary itself."""


class _Answer(Struct):
    summary: str


_encode: Final = msgspec.json.Encoder().encode


class Summarizers:
    """Writers of summaries."""

    def __init__(self, clients: Callable[[], Iterable[Consulted]], command: Summarizer) -> None:
        self._clients = clients
        self._command = command

    def anybody(self, purpose: Purpose) -> bool:
        """Return whether there is a writer for the purpose to ask now."""
        return self._command.is_there or any(
            purpose in client.summarizes for client in self._clients()
        )

    async def write(self, wanted: Wanted, asker: Any) -> str:
        """Return the summary; `asker` is asked first. Raise SummarizerUnavailable."""
        request = wanted.request
        params = _encode(request)
        asked: set[Consulted] = set()
        tried: list[Tried] = []
        while len(asked) < SUMMARIZERS_ASKED_MAX:
            # Chosen anew each time: clients come and go meanwhile.
            client = self._next(asked, asker, request)
            if client is None:
                break
            asked.add(client)
            reply = await ask_client(client.listener, "client/summarize", params, SUMMARIZE_SECONDS)
            try:
                return _checked(_summary_in(reply))
            except NoSummary as reason:
                tried.append(Tried(client.client_id or client.name or "a client", str(reason)))
        if self._command.is_there:
            try:
                return _checked(await self._command.summarize(request.prompt, request.purpose))
            except NoSummary as reason:
                tried.append(Tried("command", str(reason)))
        raise _unavailable(wanted, tried)

    def _next(
        self, asked: set[Consulted], asker: Any, request: SummarizeParams
    ) -> Consulted | None:
        """Return the next client: the caller, one with its client_id, a subscriber, any."""

        def rank(client: Consulted) -> int:
            if client is asker:
                return 0
            if client.client_id is not None and client.client_id == asker.client_id:
                return 1
            return 2 if client.watches(request.session_id) else 3

        offering = [
            one for one in self._clients() if request.purpose in one.summarizes and one not in asked
        ]
        return min(offering, key=rank, default=None)


def _summary_in(reply: Reply) -> str:
    if reply.result is None:
        raise NoSummary(reply.trouble or "refused")
    try:
        return typed.decode(reply.result, _Answer).summary
    except (msgspec.DecodeError, RecursionError):
        raise NoSummary("malformed") from None


def _checked(summary: str) -> str:
    """Return a summary that may be stored. Raise NoSummary."""
    if not summary.strip():
        raise NoSummary("empty")
    if len(summary.encode(errors="replace")) > SUMMARY_BYTES_MAX:
        raise NoSummary("too_large")
    return summary


def _unavailable(wanted: Wanted, tried: list[Tried]) -> SummarizerUnavailable:
    if tried:
        became = "; ".join(f"{one.by}: {one.reason}" for one in tried)
        reason = f"every writer of summaries failed ({became})"
    else:
        reason = "there is no writer of summaries"
    return SummarizerUnavailable(
        f"{reason}: write one by the plan's prompt and send {wanted.instead}, or call again when"
        " a client that offered to summarize is connected or summarizer.command is configured",
        purpose=wanted.request.purpose,
        # Encoded once: several callers may have joined, and each gets it.
        plan=Raw(_encode(wanted.plan)),
        tried=tried,
    )
