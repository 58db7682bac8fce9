"""Question that a person must answer with yes before a command goes on."""

from __future__ import annotations

import sys

import click


def is_confirmed(question: str) -> bool:
    """Ask on standard error and return the answer.

    The end of an input that is no terminal counts as no.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)
        return False
