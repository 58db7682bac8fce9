"""Messages as the text that a model reads to summarise them.

Law: the text is exactly that of the replaced programs where they define one, so that a summary is
made of equal text: `[User]: …`, `[Assistant]: …`, `[Assistant tool calls]: …`, `[Tool result]: …`.
A message from outside the conversation (a summary, a command of the user) is shown as the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessiond.model.parsed_message import Block, ParsedMessage, ShellCommand
from sessiond.session.context.stringify import (
    compact_json,
    cut_units,
    members_of,
    utf16_units,
    whole_text,
    written,
)

_RESULT_UNITS_MAX: Final = 2000
_COMPACTED: Final = (
    "The conversation history before this point was compacted into the following summary:\n\n"
    "<summary>\n{}\n</summary>"
)
_BRANCHED: Final = (
    "The following is a summary of a branch that this conversation came back from:\n\n"
    "<summary>\n{}</summary>"
)
_WRAPPERS: Final = {
    "compactionSummary": _COMPACTED,
    "compaction_summary": _COMPACTED,
    "branchSummary": _BRANCHED,
    "branch_summary": _BRANCHED,
}
_USERS: Final = _WRAPPERS.keys() | {"user", "custom", "bashExecution"}


def conversation(readings: Iterable[ParsedMessage]) -> str:
    """Return the messages as text, with a blank line between them."""
    return "\n\n".join(part for reading in readings for part in _parts(reading))


def is_users(reading: ParsedMessage) -> bool:
    """Return whether the message is shown to a model as the user's."""
    return reading.role in _USERS


def as_told(reading: ParsedMessage) -> str | None:
    """Return the text that a model gets as the user's; None if the message is withheld from it.

    Applies to summaries, the user's commands, extensions' messages, and the user's own.
    """
    if reading.command is not None:
        return None if reading.command.excluded else _ran(reading.command)
    wrapper = _WRAPPERS.get(reading.role)
    return reading.text if wrapper is None else wrapper.format(reading.text)


def _parts(reading: ParsedMessage) -> Iterator[str]:
    for block in reading.blocks:
        if block.kind == "tool_result" and (result := block.said):
            yield f"[Tool result]: {_shortened(result)}"
    if reading.role in _USERS:
        # An empty summary says nothing: piglet stores a move as one.
        is_empty = reading.role in _WRAPPERS and not reading.text
        if not is_empty and (told := as_told(reading)):
            yield f"[User]: {told}"
    elif reading.role == "assistant":
        texts = [block.text for block in reading.blocks if block.kind == "text"]
        calls = [_call(block) for block in reading.blocks if block.kind == "tool_call"]
        if texts:
            yield "[Assistant]: " + "\n".join(texts)
        if calls:
            yield "[Assistant tool calls]: " + "; ".join(calls)


def _shortened(said: str) -> str:
    kept = cut_units(said, _RESULT_UNITS_MAX)
    gone = utf16_units(said) - utf16_units(kept)
    return f"{kept}\n\n[... {gone} more characters truncated]" if gone else said


def _call(block: Block) -> str:
    """Return a call as text: `name(path="a.py", limit=10)`."""
    members = members_of(block.arguments)
    if members is None:
        said = "" if block.arguments is None else compact_json(block.arguments)
        return f"{block.name}({said})"
    named = (f"{whole_text(name)}={written(value)}" for name, value in members.items())
    return f"{block.name}({', '.join(named)})"


def _ran(command: ShellCommand) -> str:
    said = f"Ran `{command.command}`\n"
    said += f"```\n{command.output}\n```" if command.output else "(no output)"
    if command.cancelled:
        said += "\n\n(command cancelled)"
    elif command.exit_code:
        said += f"\n\nCommand exited with code {command.exit_code}"
    if command.truncated and command.full_output_path:
        said += f"\n\n[Output truncated. Full output: {command.full_output_path}]"
    return said
