"""Terms of the command line: options in place of parameters in errors, paths in place of ids.

Law: `sessiond call` sends parameters that the user names, so its errors keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import click

__all__ = ["in_terms_of", "is_path", "running_command"]

# Parameters that no command takes by their names: they come from SESSION, OTHER and ENTRY.
_UNNAMED: Final = re.compile(r"(other_)?session_id|refs\[\d+\]")
_METHODS: Final[Mapping[str, str]] = {"catalog/roots adds": "`sessiond roots add` adds"}


def running_command() -> tuple[str, click.Command] | None:
    """Return the name of the command that runs, and the command; None outside of commands."""
    context = click.get_current_context(silent=True)
    if context is None:
        return None
    if not isinstance(context.command, click.Group):
        return context.command.name or "", context.command
    name = context.invoked_subcommand
    command = None if name is None else context.command.get_command(context, name)
    return None if name is None or command is None else (name, command)


def in_terms_of(
    command: click.Command, message: str, data: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return an error's message, and the part of the command line that the error is about."""
    ref = data.get("ref") or data.get("entry_id")
    if ref is not None:
        message = message.replace("this text", f'"{ref}"')
    for named, known in _METHODS.items():
        message = message.replace(named, known)
    path: str | None = data.get("path")
    if path is None or _UNNAMED.fullmatch(path):
        return message, None
    flag = _flag(command, path)
    if flag is None:
        return message, path
    # A message names a parameter at its beginning, behind these verbs, or by no word of English.
    before = "" if "_" in path else r"(?:^|(?<=with )|(?<=leave )|(?<=send ))"
    return re.sub(rf"{before}\b{re.escape(path)}\b", flag, message), flag


def _flag(command: click.Command, path: str) -> str | None:
    """Return the option that sets a parameter; None for a value inside of a parameter."""
    name = re.sub(r"\[\d+\]$", "", path)
    for param in command.params:
        if isinstance(param, click.Option) and param.name == name:
            return max(param.opts, key=len)
    return None


def is_path(ref: str) -> bool:
    """Return whether a user's text for a session is the path of its file."""
    return "/" in ref or ref.endswith((".jsonl", ".jsonl.zst", ".json"))
