"""Findings: problems of a file at their places in the editor's text.

Law: pure. A finding says what to do next, and never quotes the file's content. An agent at work has
open calls, so a finding about these is a note, and there is none while a client is present and works.
Calls further up are left alone: the log is append-only, and session/build_context gives each a result
on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, cast

from msgspec import Struct

from sessiond.lsp.text.lines import references
from sessiond.lsp.text.text import Text
from sessiond.visible import counted

MISSING_RESULT: Final = "missing_result"
CHANGED_ON_DISK: Final = "changed_on_disk"
# Lines at the end of the text among which an open call is looked for.
_CALL_LINES_MAX: Final = 2_000


class Severity(Enum):
    """Severities of a finding."""

    ERROR = auto()
    WARNING = auto()
    NOTE = auto()


class Problem(Struct, frozen=True):
    """A problem as the daemon reports it; lines count from 1."""

    line: int
    kind: str
    detail: str


class Verdict(Struct, frozen=True):
    """The part of session/verify's answer that an editor shows; `reason` is of session/open."""

    problems: list[Problem]
    problem_count: int
    read_only: bool
    repairable: bool
    reason: str | None = None


class Finding(Struct, frozen=True):
    """A diagnostic: a range in one line, in the editor's columns."""

    line: int
    start: int
    end: int
    severity: Severity
    code: str
    message: str


# Member at fault by kind of problem; a finding of another kind covers the whole line.
_AT_FAULT: Final[Mapping[str, str]] = {
    "orphan": "parent_id",
    "duplicate_id": "id",
    "unknown_target": "target_id",
    "first_kept_off_path": "first_kept_entry_id",
    "bad_time": "timestamp",
    "other_spelling": "parentId",
    "other_id": "id",
}
_IN_USE: Final = (
    "other programs have this session open: until they close it, sessiond goes by what the "
    "file was before it was saved"
)
_CUT: Final = (
    "half an append, left by a crash: it was cut from the file when the session was opened, and a "
    "copy was put beside it"
)
_SEVERITIES: Final[Mapping[str, Severity]] = {
    "bad_header": Severity.ERROR,
    "bad_line": Severity.ERROR,
}


def findings(
    verdict: Verdict, text: Text, *, is_stale: bool = False, cut_at: int | None = None
) -> list[Finding]:
    """Return every problem at its place, those of the whole file first.

    `is_stale`: the file was saved while another program has the session open. `cut_at`: the first
    line that was in the file when the editor read it, and was cut when the session was opened.
    """
    found: list[Finding] = []
    if is_stale:
        found.append(_whole(text, 0, Severity.WARNING, "in_use", _IN_USE))
    if verdict.read_only:
        message = _read_only(verdict)
        found.append(_whole(text, 0, Severity.WARNING, "read_only", message))
    if cut_at is not None:
        found.append(_whole(text, cut_at, Severity.WARNING, "torn_tail", _CUT))
    found += [_finding(problem, text) for problem in verdict.problems]
    if (left_out := verdict.problem_count - len(verdict.problems)) > 0:
        message = f"{counted(left_out, 'more problem')}: see `sessiond verify`"
        found.append(_whole(text, 0, Severity.NOTE, "more", message))
    return found


def _read_only(verdict: Verdict) -> str:
    """Return why nothing can be appended, and what to do."""
    if verdict.reason == "other_agent":
        return (
            "read-only: only the program that writes this file changes it; `sessiond fork` makes a"
            " session that goes on from it"
        )
    if verdict.reason == "not_writable":
        return (
            "read-only: the daemon's user may not write to this file; `sessiond fork` makes a session"
            " that goes on from it"
        )
    if not any(problem.kind == "bad_line" for problem in verdict.problems):
        return "read-only: the file is of an older version; `sessiond import` makes a session of it"
    then = "; `sessiond repair` makes it writable again" if verdict.repairable else ""
    return f"read-only: a line does not parse, so nothing is appended{then}"


def changed_on_disk(verdict: Verdict, text: Text) -> list[Finding]:
    """Return findings for a file that another program changed since the editor read it."""
    if not verdict.problem_count:
        return []
    first = verdict.problems[0]
    message = (
        f"another program changed this file, and what it wrote has problems: line {first.line}"
        f" {first.detail}; read the file again to see them in their places"
    )
    return [_whole(text, 0, Severity.WARNING, CHANGED_ON_DISK, message)]


def refusal(kind: str, message: str, data: Mapping[str, Any], text: Text) -> Finding | None:
    """Return a daemon's error as a finding; None if the error is not about the file."""
    match kind:
        case "session_locked":
            return _whole(
                text, 0, Severity.NOTE, kind, f"{_holder(data.get('holder'))} has the file open"
            )
        case "session_corrupt":
            line = data.get("line")
            at = line - 1 if isinstance(line, int) and line > 0 else 0
            return _whole(text, at, Severity.NOTE, kind, f"not read as a session: {message}")
        case "storage_error" if data.get("errno") == "ENOENT":
            # The text was never saved.
            return None
        case "storage_error" | "too_large" | "overloaded" | "session_not_found":
            return _whole(
                text, 0, Severity.NOTE, kind, f"sessiond cannot read this file: {message}"
            )
        case _:
            return None


def _holder(holder: object) -> str:
    if not isinstance(holder, Mapping):
        return "another process"
    known = cast("Mapping[str, Any]", holder)
    words = [f"process {known.get('pid')}"]
    words += [f"on {host}"] if (host := known.get("host")) else []
    words += [f"since {since}"] if (since := known.get("since")) else []
    return " ".join(words)


def _finding(problem: Problem, text: Text) -> Finding:
    number = max(0, problem.line - 1)
    severity = _SEVERITIES.get(problem.kind, Severity.WARNING)
    member = _AT_FAULT.get(problem.kind)
    for reference in references(text.line(number)) if member else ():
        if reference.member == member:
            start, end = text.column(number, reference.start), text.column(number, reference.end)
            return Finding(number, start, end, severity, problem.kind, problem.detail)
    return _whole(text, number, severity, problem.kind, problem.detail)


def _whole(text: Text, number: int, severity: Severity, code: str, message: str) -> Finding:
    # A line that was cut away, or stored since the editor read the file, is shown at the end.
    number = min(number, len(text) - 1)
    end = text.encoding.units(text.line(number))
    return Finding(number, 0, end, severity, code, message)


# -- tool calls without a result --------------------------------------------------


class _Block(Struct):
    type: str
    meta: Mapping[str, Any] | None = None


class LastTurn(Struct):
    """The part of a turn that shows its open calls."""

    status: str = ""
    response: Sequence[_Block] = ()


def open_calls(turn: LastTurn) -> list[str]:
    """Return the ids of the calls of a turn that have no result yet."""
    if turn.status != "pending":
        return []
    metas = [block.meta or {} for block in turn.response if block.type == "tool"]
    found = [meta.get("id") for meta in metas if meta.get("state") == "running"]
    return [call_id for call_id in found if isinstance(call_id, str)]


def open_call_findings(calls: Sequence[str], text: Text) -> list[Finding]:
    """Return a note at each line with open calls."""
    counts: dict[int, int] = {}
    for call_id in calls:
        if (line := _line_of(call_id, text)) is not None:
            counts[line] = counts.get(line, 0) + 1
    return [
        Finding(
            line,
            0,
            text.encoding.units(text.line(line)),
            Severity.NOTE,
            MISSING_RESULT,
            f"{counted(count, 'tool call')} without a result: the agent still works, or it ended",
        )
        for line, count in sorted(counts.items())
    ]


def _line_of(call_id: str, text: Text) -> int | None:
    quoted = f'"{call_id}"'
    for line in range(len(text) - 1, max(-1, len(text) - 1 - _CALL_LINES_MAX), -1):
        if quoted in text.line(line):
            return line
    return None
