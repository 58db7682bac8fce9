"""Arguments and options that several commands take: a session, a head, a guard, a folder, a time, JSON."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem
from msgspec import Raw

from sessiond import typed
from sessiond.cli.connect.conversation import NULL
from sessiond.moments import MOMENT_HINT, moment

F = TypeVar("F", bound=Callable[..., Any])


class _Session(click.ParamType[str]):
    """Session as a user writes it; a running daemon completes it."""

    name = "session"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from sessiond.cli.shell_completion import complete_session

        del param
        return complete_session(ctx, incomplete)


class _Folder(click.ParamType[str]):
    """Absolute path of a folder, existing or not."""

    name = "folder"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del param, ctx
        return absolute(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del ctx, param
        return [CompletionItem(incomplete, type="dir")]


class _Text(click.ParamType[str]):
    """Text; "-" stands for standard input, "@FILE" for a file, "@@" for a leading "@"."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "-":
            return text_of_input()
        if value.startswith("@@"):
            return str(value[1:])
        if value.startswith("@"):
            try:
                return _without_line_end(Path(value[1:]).read_bytes().decode())
            except OSError as error:
                why = f"{value[1:]}: {error.strerror}; for a text that begins with @ write @@"
                self.fail(why, param, ctx)
        return str(value)


class _Json(click.ParamType[Raw]):
    """JSON object or array, kept as bytes; "-" is standard input, "@FILE" a file."""

    name = "json"

    def __init__(self, kind: type[dict[str, Raw]] | type[list[Raw]]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Raw:
        text = self._bytes(str(value), param, ctx)
        try:
            typed.decode(text, self._kind)
            return Raw(text)
        except msgspec.ValidationError as error:
            self.fail(str(error), param, ctx)
        except (msgspec.DecodeError, RecursionError) as error:
            self.fail(f"not JSON: {error}", param, ctx)

    def _bytes(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if value == "-":
            return standard_input().encode()
        if not value.startswith("@"):
            return value.encode()
        try:
            return Path(value[1:]).read_bytes()
        except OSError as error:
            self.fail(f"{value[1:]}: {error.strerror}", param, ctx)


class _Moment(click.ParamType[str]):
    """Time: RFC 3339, a date, or a span before now (30m, 12h, 7d)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return moment(value)
        except (ValueError, OverflowError):
            self.fail(MOMENT_HINT, param, ctx)


SESSION: Final = _Session()
FOLDER: Final = _Folder()
TEXT: Final = _Text()
JSON_OBJECT: Final = _Json(dict[str, Raw])
JSON_LIST: Final = _Json(list[Raw])
MOMENT: Final = _Moment()


def standard_input() -> str:
    """Return all of standard input with its line ends. Raise UnicodeError."""
    if sys.stdin.isatty():
        # Without this note a waiting command looks like a hanging one.
        end = "reading standard input: end it with Ctrl-D on a line of its own, or stop with Ctrl-C"
        click.echo(end, err=True)
    return sys.stdin.buffer.read().decode()


def text_of_input() -> str:
    """Return standard input as text, without the line break at its end."""
    return _without_line_end(standard_input())


def _without_line_end(text: str) -> str:
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def absolute(path: str) -> str:
    """Return the absolute form of a path, which the daemon needs: its working directory differs."""
    return str(Path(path).expanduser().absolute())


def session_argument(command: F) -> F:
    """Add the argument SESSION, passed as `session`."""
    return click.argument("session", type=SESSION)(command)


def project_options(command: F) -> F:
    """Add `--cwd` (also named `--project`) and `--here`, passed as `cwd`; None if neither is given."""

    @functools.wraps(command)
    def run(*arguments: Any, cwd: str | None, here: bool, **named: Any) -> Any:
        if here and cwd is not None:
            raise click.UsageError("give --here or --cwd, not both")
        return command(*arguments, cwd=absolute(".") if here else cwd, **named)

    of_here = click.option(
        "--here", is_flag=True, help="Only sessions of the project in this folder."
    )
    of_folder = click.option(
        "--cwd", "--project", "cwd", type=FOLDER, help="Only sessions of the project in FOLDER."
    )
    return of_folder(of_here(run))  # type: ignore[return-value]


_ARCHIVED: Final[dict[str, Raw | bool | None]] = {"no": None, "only": True, "any": NULL}


def archived_option(command: F) -> F:
    """Add `--archived`, passed as `archived`: the method's parameter, None for its default."""
    return click.option(
        "--archived",
        type=click.Choice(list(_ARCHIVED)),
        default="no",
        show_default=True,
        callback=_archived,
        help="Include archived sessions: none, only these, or all sessions.",
    )(command)


def head_option(command: F) -> F:
    """Add `--head`, passed as `head`."""
    return click.option("--head", metavar="NAME", help="Head to use.  [default: main]")(command)


def expect_option(command: F) -> F:
    """Add `--expect-leaf`, passed as `expected`: the parameter `expected`, or None."""
    return click.option(
        "--expect-leaf",
        "expected",
        metavar="ENTRY",
        callback=_expected,
        help='Refuse unless the head\'s leaf is this entry ("null": before the first).',
    )(command)


def key_option(command: F) -> F:
    """Add `--key`, passed as `idempotency_key`."""
    return click.option(
        "--key",
        "idempotency_key",
        metavar="STRING",
        help="Idempotency key: a retry with an equal key stores nothing twice.",
    )(command)


def _archived(_: click.Context, __: click.Parameter, value: str) -> Raw | bool | None:
    return _ARCHIVED[value]


def _expected(
    _: click.Context, __: click.Parameter, value: str | None
) -> dict[str, str | None] | None:
    return None if value is None else {"leaf_id": None if value == "null" else value}
