"""What the daemon asks of its clients, by name, and what can become of a request.

Law: a client is asked only what it offered with `initialize`, and whatever it does, or does not,
the daemon goes on: there is a reply in any case.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

from msgspec import Raw, Struct

from sessiond.model.plans import PlanFacts

__all__ = [
    "CLIENT_REQUESTS",
    "HOOKS",
    "Asked",
    "BeforeBranch",
    "BeforeCompact",
    "BeforeFork",
    "Hook",
    "HookAnswer",
    "Reply",
    "SummarizeParams",
    "Summarized",
    "Trouble",
]

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


Hook = Literal["before_compact", "before_fork", "before_branch"]
HOOKS: Final[tuple[Hook, ...]] = get_args(Hook)
"""What a client may want a word before; the request is called `client/` and this."""


class BeforeCompact(Struct, frozen=True):
    """A head is about to be compacted.

    `plan` is what is going to be summarised; null where the caller brought what is to be stored,
    and then a summary of yours is not used. `automatic`: nobody asked for it.
    """

    session_id: str
    head: str
    plan: PlanFacts | None
    automatic: bool = False


class BeforeFork(Struct, frozen=True):
    """A new session is about to be made of this one, up to an entry; null where it is not named."""

    session_id: str
    entry_id: str | None


class BeforeBranch(Struct, frozen=True):
    """A head is about to leave `leaf_id` for an entry.

    Null is before the first entry; `leaf_id` is null too for a head that is new. A summary of yours is
    used where the caller sent none.
    """

    session_id: str
    head: str
    leaf_id: str | None
    entry_id: str | None


class HookAnswer(Struct, frozen=True, omit_defaults=True):
    """Nothing, a reason why not, or a summary that is not blank."""

    veto: str | None = None
    summary: str = ""


class Asked(NamedTuple):
    """The shapes of one request to a client."""

    params: type[Struct]
    result: type[Struct]


CLIENT_REQUESTS: Final[dict[str, Asked]] = {
    "client/summarize": Asked(SummarizeParams, Summarized),
    "client/before_compact": Asked(BeforeCompact, HookAnswer),
    "client/before_fork": Asked(BeforeFork, HookAnswer),
    "client/before_branch": Asked(BeforeBranch, HookAnswer),
}
