"""The failure that ends a command, apart from `failures`, which a command that succeeds never needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from sessiond.daemon.exit_status import Status

_PLACE: Final = "sessiond.place"


class Failure(Exception):
    """Failure that ends a command: what went wrong, what to do next, and the exit status."""

    def __init__(
        self,
        what: str,
        then: str,
        status: Status = Status.FAILED,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.then = then
        self.status = status
        self.facts: Mapping[str, Any] = {} if facts is None else facts
        """Values for programs, beside the texts."""

    def about(self, subject: str) -> Failure:
        """Return the failure with its subject named, for a command on several subjects."""
        if Path(subject).name in self.what:
            return self
        return Failure(f"{subject}: {self.what}", self.then, self.status, self.facts)

    def body(self) -> dict[str, Any]:
        """Return the failure as a JSON value for programs."""
        texts = {"message": self.what, "next": self.then, "status": int(self.status)}
        return {**self.facts, **texts}


def forget_output() -> None:
    """Drop what standard output did not take: Python flushes once more at its end, to nowhere then."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note_place(context: click.Context) -> None:
    """Remember how the command line names the daemon, for the commands that a failure advises."""
    context.meta[_PLACE] = [
        (f"--{name}", context.params[name])
        for name in ("profile", "home", "socket", "config")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]


def named_place(context: click.Context) -> Sequence[tuple[str, str]]:
    """Return the flags of the command line that name the daemon, each with its value."""
    found: Sequence[tuple[str, str]] = context.meta.get(_PLACE, ())
    return found


def missing_client() -> Failure:
    """Return the failure of an installation without its own client.

    The distribution sessiond-client of version 0.1.0 owned the same files: its removal takes them away.
    """
    # Imported here, as below: a start of the daemon reads this module, and lacks and quotes nothing.
    from sessiond.installation import mending

    what = "files of sessiond_client are missing, as after `pip uninstall sessiond-client`"
    return Failure(what, mending())


def missing_value(store: str, namespace: str, key: str, *, noun: str, listed: str) -> Failure:
    """Return the failure for a key that `sessiond STORE get` does not find.

    `noun` is what the key names, `listed` what `sessiond STORE list` shows.
    """
    from shlex import quote

    then = f"see `sessiond {store} list {quote(namespace)}` for the {listed}"
    facts = {"kind": "key_not_found", "namespace": namespace, "key": key, "revision": 0}
    return Failure(f"{namespace} has no {noun} {key}", then, Status.NOT_FOUND, facts)
