"""What the daemon asks of its clients, by name, and what can become of a request.

Law: a client is asked only what it offered with `initialize`, and whatever it does, or does not,
the daemon goes on: there is a reply in any case.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from msgspec import Raw, Struct

from sessiond.model.plans import PlanFacts

__all__ = ["CLIENT_REQUESTS", "Asked", "Reply", "SummarizeParams", "Summarized", "Trouble"]

Trouble = Literal["busy", "gone", "refused", "malformed", "too_large", "timeout"]
"""Why there is no result: too much waits for the client already; its connection ended; it
answered with an error; with what is no answer; with a frame over the limit; not in time."""


class Reply(Struct, frozen=True):
    """What became of a request: a result, or why there is none."""

    result: Raw | None
    trouble: Trouble | None = None


class SummarizeParams(Struct, frozen=True):
    """Put `prompt` to a model and answer with what it says."""

    session_id: str
    head: str
    plan: PlanFacts
    prompt: str


class Summarized(Struct, frozen=True):
    """What the model said, not blank."""

    summary: str


class Asked(NamedTuple):
    """The shapes of one request to a client."""

    params: type[Struct]
    result: type[Struct]


CLIENT_REQUESTS: Final[dict[str, Asked]] = {
    "client/summarize": Asked(SummarizeParams, Summarized),
}
