"""Flags that commands share, and the values they become.

`place_options` names the daemon; `shared_options` adds how to answer. Each passes one value to
the command, so no command names the flags again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from sessiond.cli.ui.failure import note_place

F = TypeVar("F", bound=Callable[..., Any])

_JSON = "sessiond.json"
_SESSION = "sessiond.session"
# Names of the parameters of the shared options below.
_SHARED = frozenset({"as_json", "config", "home", "may_start", "no_pager", "profile", "socket"})


class DaemonPlace(NamedTuple):
    """Daemon that the flags and the environment name; None for a value that is not given."""

    socket: str | None
    profile: str | None
    home: str | None
    config: str | None = None
    is_named: bool = False
    """True if the command line names a profile or a home, and no socket."""


class Shared(NamedTuple):
    """Daemon to use, permission to start it, and form of the answer."""

    place: DaemonPlace
    as_json: bool
    may_start: bool


class Command(click.Command):
    """Command with examples; a test runs each example."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._examples = tuple(examples)
        for param in self.params:
            # TEXT stands for a text that may come from standard input or from a file.
            if param.metavar is None and param.type is click.STRING:
                param.metavar = "STRING" if isinstance(param, click.Option) else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the arguments; an error of click's parser names the command whose help tells more."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options before the shared options."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            # Usage and help text explain the arguments.
            if record is not None and isinstance(param, click.Option):
                flags, text = record
                text = f"{text}  [may be repeated]" if param.multiple else text
                (shared if param.name in _SHARED else own).append((flags, text))
        for title, records in (("Options", own), ("Shared options", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self._examples:
            with formatter.section("Examples"):
                for example in self._examples:
                    formatter.write(f"{'':{formatter.current_indent}}{example}\n")


def place_options(command: F) -> F:
    """Add `--profile --socket --home --config`, passed as `place`."""

    @functools.wraps(command)
    def run(
        *arguments: Any,
        socket: str | None,
        profile: str | None,
        home: str | None,
        config: str | None,
        **named: Any,
    ) -> Any:
        said = DaemonPlace(socket, profile, home, config)
        context = click.get_current_context()
        note_place(context)
        place = place_of(context, said)
        return command(*arguments, place=place, **named)

    for add in (_CONFIG, _HOME, _SOCKET, _PROFILE):
        run = add(run)
    return run  # type: ignore[return-value]  # click's decorators return their argument's type


def place_of(context: click.Context, said: DaemonPlace) -> DaemonPlace:
    """Return the place without values that do not count.

    A socket of the environment does not count against a profile or home on the command line. A
    relative home in the environment does not count: the next command may run in another folder.
    """
    on_line = {
        name
        for name in ("socket", "profile", "home")
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if "home" not in on_line and not Path(said.home or "").expanduser().is_absolute():
        said = said._replace(home=None)
    if not on_line or "socket" in on_line:
        return said
    return said._replace(socket=None, is_named=True)


def json_option(command: F) -> F:
    """Add `--json`, passed as `as_json`."""
    return _AS_JSON(command)


def start_option(command: F) -> F:
    """Add `--no-start`, passed as `may_start`."""
    return _NO_START(command)


def stdio_option(command: F) -> F:
    """Add `--stdio`, which editors pass to each server, and which a server on these streams takes for granted."""
    return _STDIO(command)


def shared_options(command: F) -> F:
    """Add the options of every command that calls a daemon, passed as `shared`."""

    @functools.wraps(command)
    def run(
        *arguments: Any, place: DaemonPlace, as_json: bool, may_start: bool, **named: Any
    ) -> Any:
        return command(*arguments, shared=Shared(place, as_json, may_start), **named)

    return json_option(place_options(start_option(run)))  # type: ignore[return-value]


def wants_json(context: click.Context) -> bool:
    """Return whether the running command was given `--json`."""
    return bool(context.meta.get(_JSON))


def note_session(ref: str) -> None:
    """Remember the user's text for SESSION, for the advice of a failure."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_SESSION] = ref


def named_session(context: click.Context) -> str | None:
    """Return the latest user's text for SESSION, or None."""
    ref: str | None = context.meta.get(_SESSION)
    return ref


def note_json(context: click.Context) -> None:
    """Remember that `--json` was given, before a command runs."""
    context.meta[_JSON] = True


def _note_json(context: click.Context, _: click.Parameter, value: object) -> object:
    context.meta[_JSON] = value
    return value


_STDIO = click.option(
    "--stdio", is_flag=True, expose_value=False, help="Taken for granted: editors pass it."
)
_PROFILE = click.option(
    "--profile",
    envvar="SESSIOND_PROFILE",
    metavar="NAME",
    help="Set of sessions; each profile has one daemon.  [env: SESSIOND_PROFILE; default: default]",
)
_SOCKET = click.option(
    "--socket",
    envvar="SESSIOND_SOCKET",
    metavar="PATH",
    help="The daemon's Unix socket.  [env: SESSIOND_SOCKET, unless --profile or --home is given; "
    "default: by profile and home]",
)
_HOME = click.option(
    "--home",
    envvar="SESSIOND_HOME",
    metavar="FOLDER",
    help="Folder of all profiles.  [env: SESSIOND_HOME; default: the user's data folder]",
)
_CONFIG = click.option(
    "--config",
    envvar="SESSIOND_CONFIG",
    metavar="FILE",
    help="Configuration file.  [env: SESSIOND_CONFIG; default: `sessiond config` shows it]",
)
_AS_JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    is_eager=True,
    callback=_note_json,
    help="Print JSON, for programs.",
)
_NO_START = click.option(
    "--no-start",
    "may_start",
    flag_value=False,
    default=True,
    help="Do not start a daemon if none runs.",
)
