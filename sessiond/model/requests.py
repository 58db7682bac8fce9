"""The requests of the daemon to its clients, by name, and their outcomes.

Law: the daemon sends a client only requests that the client offered in `initialize`. Every
request ends with a `Reply`, also without an answer of the client, so the daemon always goes on.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

from msgspec import UNSET, Raw, Struct, UnsetType

from sessiond.model.plans import MergeSource, PlanFacts

Trouble = Literal["busy", "gone", "refused", "malformed", "too_large", "timeout"]
"""Reasons for a missing result: too many requests wait for the client ("busy"); its connection
ended ("gone"); the client answered with an error ("refused"), with an invalid answer
("malformed"), with a frame over the limit ("too_large"), or not in time ("timeout")."""


class Reply(Struct, frozen=True):
    """The outcome of a request: a result, or the reason why there is none."""

    result: Raw | None
    trouble: Trouble | None = None


Purpose = Literal["compaction", "merge", "squash", "branch"]
PURPOSES: Final[tuple[Purpose, ...]] = get_args(Purpose)
"""Purposes for which a client may offer summaries."""


class SummarizeParams(Struct, frozen=True):
    """A request to send `prompt` to a model and to answer with the model's text.

    `plan` is of a compaction, else null; `sources` are of a merge, and `entry_ids` of a squash or a
    branch. `head` is the head that the text is for; "main" for the text of a new session.
    """

    session_id: str
    head: str
    purpose: Purpose
    plan: PlanFacts | None
    prompt: str
    sources: list[MergeSource] | UnsetType = UNSET
    entry_ids: list[str] | UnsetType = UNSET


class Summarized(Struct, frozen=True):
    """The text of the model, which is not blank."""

    summary: str


Hook = Literal["before_compact", "before_fork", "before_branch", "before_switch"]
HOOKS: Final[tuple[Hook, ...]] = get_args(Hook)
"""Operations that a client may veto; the request's method is `client/` and this name."""


class BeforeCompact(Struct, frozen=True):
    """A request before a head is compacted.

    `plan` says what will be summarised. `plan` is null if the caller sent the summary or the
    messages to store; then a summary in the answer is ignored. `automatic` is true if no client
    asked for the compaction.
    """

    session_id: str
    head: str
    plan: PlanFacts | None
    automatic: bool = False


class BeforeFork(Struct, frozen=True):
    """A request before a new session is made of this one, up to an entry, null if none is named."""

    session_id: str
    entry_id: str | None


class BeforeBranch(Struct, frozen=True):
    """A request before a head leaves `leaf_id` for another entry.

    A null id is the place before the first entry; `leaf_id` is also null for a new head. A summary
    in the answer is used if the caller sent none, and so is a label in that of session/navigate.
    `summarize`, `instructions` and `label` are those of the call.
    """

    session_id: str
    head: str
    leaf_id: str | None
    entry_id: str | None
    summarize: bool = False
    instructions: str | None = None
    label: str | None = None


SwitchReason = Literal["new", "resume", "project"]
"""Reasons for a switch: a session is created; an existing one is opened; the project changes."""


class BeforeSwitch(Struct, frozen=True):
    """A request before a client leaves sessions for another one.

    A null `to_session_id` means that the caller did not name the session that comes.
    """

    from_session_ids: list[str]
    to_session_id: str | None
    reason: SwitchReason


class HookAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer to a hook: empty, a veto with its reason, or a summary that is not blank.

    A label, which is not blank, is for the entry that a head goes to, or for the summary.
    """

    veto: str | None = None
    summary: str = ""
    label: str | None = None


class Asked(NamedTuple):
    """The shapes of one request to a client."""

    params: type[Struct]
    result: type[Struct]


CLIENT_REQUESTS: Final[dict[str, Asked]] = {
    "client/summarize": Asked(SummarizeParams, Summarized),
    "client/before_compact": Asked(BeforeCompact, HookAnswer),
    "client/before_fork": Asked(BeforeFork, HookAnswer),
    "client/before_branch": Asked(BeforeBranch, HookAnswer),
    "client/before_switch": Asked(BeforeSwitch, HookAnswer),
}
