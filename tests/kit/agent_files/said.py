"""Words that the generators and the second readers share: a message, a step of a talk, a reading.

Ids: Claude's are the uuids of its lines, Gemini's the ids of its messages. Codex has none, so a line is
`line-<n>` (n from 1, in its own file), a line of a base file `<rollout id>/line-<n>`, and an item of a
replaced history `line-<n>/<k>` (k from 0, n the line of the compaction).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

Json = dict[str, Any]
Role = Literal["user", "assistant", "tool", "summary", "marker", "developer", "system"]


@dataclass(frozen=True)
class Said:
    """A message of the context: one reply, one prompt, or the result of one call.

    `calls` are the calls that a reply makes, or the one call that a result answers. A `marker` is a place
    without readable words: a boundary, an encrypted summary.
    """

    role: Role
    ids: tuple[str, ...]
    texts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    images: int = 0
    failed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """A message of a talk as its generator made it, with the step before it."""

    role: Role
    ids: tuple[str, ...]
    before: Step | None
    prompt: bool = False
    """True if a talk can go back to here: the step is a real prompt, not one that a compaction kept."""
    parent: str | None = None
    """Line that a prompt of Claude was written below."""
    several: bool = False
    """True if the reply has several calls."""
    attached: bool = False
    """True for an attachment, which no compaction keeps."""
    kept: bool = False
    """True if a compaction kept the step."""


def steps_to(step: Step | None) -> list[Step]:
    """Return the steps of a talk that ends in a step, first to last."""
    found: list[Step] = []
    while step is not None:
        found.append(step)
        step = step.before
    return found[::-1]


@dataclass(frozen=True)
class Reading:
    """Facts that a second reader found in the lines of one session."""

    leaf: str | None
    """End of the talk: a line of Claude, the last line of Codex' log, the last message of Gemini."""
    title: str | None
    """Title that a list shows: the stated one, else words of the talk."""
    stated_title: str | None
    """Title that a line states: custom before generated."""
    context: tuple[Said, ...]
    usage: dict[str, int]
    """Tokens over the whole file, all branches, in the agent's own counting."""
    tree: dict[str, str | None]
    """Parent of each line or message; where the file names none, the message that was last before."""
    model: str | None = None
    cwd: str | None = None
    prompts: tuple[str, ...] = ()
    """Ids of the real prompts on all branches, in the order of the file."""
    context_tokens: int | None = None
    bad: int = 0
    """Number of lines that are no JSON object."""
    missing: frozenset[str] = frozenset()
    """Parents, kept lines and base files that are named and are not there."""
    more_usage: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """Other sums: Claude `aside` (lines of subagents), Codex `final`, Gemini `live`."""
    tag: str | None = None

    @property
    def order(self) -> list[tuple[Role, tuple[str, ...]]]:
        """Return role and ids of each message of the context."""
        return [(one.role, one.ids) for one in self.context]


def as_object(value: Any) -> Json:
    """Return an object, and an empty one for any other value."""
    return value if _is_object(value) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, and an empty one for any other value."""
    return value if _is_list(value) else []


def _is_object(value: Any) -> TypeGuard[Json]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def as_text(value: Any) -> str | None:
    """Return a text, and None for any other value."""
    return value if isinstance(value, str) else None


def as_number(value: Any) -> int:
    """Return an integer, and 0 for any other value."""
    return value if isinstance(value, int) else 0


def parsed(lines: Sequence[bytes]) -> Iterator[Json | None]:
    """Yield the object of each line, and None for a line that is no JSON object."""
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        yield as_object(value) if isinstance(value, dict) else None


def whole_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the finished lines of a file and its unfinished tail."""
    *lines, tail = data.split(b"\n")
    return lines, tail


def added(sums: dict[str, int], more: dict[str, int]) -> None:
    """Add numbers to sums of their names."""
    for name, count in more.items():
        sums[name] = sums.get(name, 0) + count
