"""Shared flags before the name of a command: `sessiond --json list`.

Law: a flag has one meaning before and behind the name; the later one wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

_WITH_VALUE: Final = frozenset({"--profile", "--socket", "--home", "--config"})
_ALONE: Final = frozenset({"--json", "--no-start", "--no-pager"})
# A command that never pages and never starts a daemon obeys these flags without knowing them.
_HARMLESS: Final = frozenset({"--no-start", "--no-pager"})


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the shared flags at the beginning, and the remaining arguments."""
    at = 0
    while at < len(arguments):
        word = arguments[at]
        name, equals, _ = word.partition("=")
        if word in _ALONE or (name in _WITH_VALUE and equals):
            at += 1
        elif word in _WITH_VALUE and at + 1 < len(arguments):
            at += 2
        else:
            break
    return [*arguments[:at]], [*arguments[at:]]


def behind(flags: Sequence[str], command: click.Command) -> list[str]:
    """Return the flags as arguments of the command, without flags that the command need not know."""
    known = {name for param in command.params for name in param.opts}
    return [flag for flag in flags if flag in known or flag not in _HARMLESS]
