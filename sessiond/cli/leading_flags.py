"""Shared flags that stand before the name of a command: `sessiond --json list`.

Law: a flag before the name means what it means behind the name; the later one wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

__all__ = ["behind", "split_flags"]

_WITH_VALUE: Final = frozenset({"--profile", "--socket", "--home", "--config"})
_ALONE: Final = frozenset({"--json", "--no-start", "--no-pager"})
# A command that pages or starts nothing does what these ask for.
_HARMLESS: Final = frozenset({"--no-start", "--no-pager"})


def split_flags(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the shared flags at the beginning, and the rest."""
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
    """Return the flags as arguments of the command, without those that it need not take."""
    known = {name for param in command.params for name in param.opts}
    return [flag for flag in flags if flag in known or flag not in _HARMLESS]
