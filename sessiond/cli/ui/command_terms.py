"""Terms of the command line: options for parameters in errors, paths for ids, and commands with their place.

Law: `sessiond call` sends parameters that the user names, so its errors keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import join, quote
from typing import Any, Final

import click

from sessiond.cli.ui.failure import named_place

# Parameters that no command takes by their names: they come from SESSION, OTHER and ENTRY.
_UNNAMED: Final = re.compile(r"(other_)?session_id|refs\[\d+\]")
_METHOD: Final = re.compile(r"\b(?:session|catalog|secret|state)/[a-z_]+")
# Commands whose names differ from those of their methods.
_COMMANDS: Final[Mapping[str, str]] = {
    "secret/set": "secret set",
    "session/create": "new",
    "session/plan_compaction": "plan",
}
# A command between backquotes, or in a line of its own. A quoted word of it may have a backquote, as a title may.
_ADVISED: Final = re.compile(
    r"""(?:`|^  )sessiond ([a-z]+)(?: (?:'[^']*'|"[^"]*"|[^`'"\n])*)?""", re.MULTILINE
)


def placed(text: str) -> str:
    """Return a text whose commands are about the daemon that the running command's line names.

    What the environment names needs no flag, and a command that asks no daemon takes none.
    """
    context = click.get_current_context(silent=True)
    flags = () if context is None else named_place(context)
    if context is None or not flags:
        return text
    group = context.find_root().command

    def with_flags(found: re.Match[str]) -> str:
        if found[0].endswith(" --help"):
            return found[0]
        command = group.get_command(context, found[1]) if isinstance(group, click.Group) else None
        known = {name for param in (command.params if command else ()) for name in param.opts}
        taken = [word for flag, value in flags if flag in known for word in (flag, value)]
        return f"{found[0]} {join(taken)}" if taken else found[0]

    return _ADVISED.sub(with_flags, text)


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
    path: str | None = data.get("path")
    if path is None or _UNNAMED.fullmatch(path):
        return message, None
    flag = _flag(command, path)
    if flag is None:
        # A place inside of a value that the user wrote has dots; a parameter alone is no word of the command line.
        return message, path if "." in path else None
    # A message names a parameter at its beginning, behind these verbs, or by no word of English.
    before = "" if "_" in path else r"(?:^|(?<=with )|(?<=leave )|(?<=send ))"
    return re.sub(rf"{before}\b{re.escape(path)}\b", flag, message), flag


def in_commands(message: str, session: str | None) -> str:
    """Return an error's message with the commands of the methods that the message names.

    `session` is the user's text for SESSION, which a command gets that takes one.
    """
    context = click.get_current_context(silent=True)
    group = None if context is None else context.find_root().command
    if context is None or not isinstance(group, click.Group):
        return message

    def command_of(found: re.Match[str]) -> str:
        name = _COMMANDS.get(found[0], found[0].partition("/")[2])
        known = name.partition(" ")[0] in group.list_commands(context)
        command = group.get_command(context, name) if known else None
        names = {param.name for param in (command.params if command else ())}
        takes = not names.isdisjoint({"session", "sessions"})
        words = f"{name} {quote(session)}" if takes and session else name
        return f"`sessiond {words}`" if known else found[0]

    message = message.replace("catalog/roots adds", "`sessiond roots add` adds")
    return _METHOD.sub(command_of, message)


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
