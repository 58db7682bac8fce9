"""Group of commands that imports the command that runs, and the end of a run.

Law: help and completion read the table of contents alone. Every end of a command reports its
failure once, by `failures`.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from sessiond.cli.leading_flags import behind, split_flags
from sessiond.cli.options import named_session, note_json, wants_json
from sessiond.cli.ui.failure import forget_output
from sessiond.daemon.exit_status import Status

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Listed(NamedTuple):
    """Line of the table of contents."""

    section: str
    name: str
    module: str
    help: str


class LazyGroup(click.Group):
    """Commands of a table of contents."""

    def __init__(self, *, contents: Sequence[Listed], **attributes: Any) -> None:
        super().__init__(**attributes)
        self._contents = {listed.name: listed for listed in contents}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._contents)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        listed = self._contents.get(cmd_name)
        if listed is None:
            return None
        module = importlib.import_module(f"sessiond.cli.commands.{listed.module}")
        found: click.Command = module.COMMAND
        return found

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take shared flags before the command as if they stood behind its name."""
        flags, rest = split_flags(args)
        if rest[:1] == ["--stdio"]:
            # Editors pass this flag to a program that they start.
            rest[0] = "stdio"
        if "--json" in flags:
            note_json(ctx)
        command = self.get_command(ctx, rest[0]) if flags and rest else None
        if command is not None:
            rest[1:1] = behind(flags, command)
        elif flags and not rest and not ctx.resilient_parsing:
            ctx.fail("name a command behind the flags")
        return super().parse_args(ctx, rest)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._contents and not args[0].startswith("-"):
            # Imported here: a tenth of the start-up time, needed for typing errors only.
            import difflib

            near = difflib.get_close_matches(args[0], self._contents)
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self._contents))
        sections = dict.fromkeys(listed.section for listed in self._contents.values())
        for section in sections:
            rows = [
                (listed.name.ljust(width), listed.help)
                for listed in self._contents.values()
                if listed.section == section
            ]
            with formatter.section(section):
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        # click's own method imports every command for its help; the table holds the help.
        names = [
            CompletionItem(listed.name, help=listed.help)
            for listed in self._contents.values()
            if listed.name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run, and end the process with the status of the run."""
        _open_what_is_closed()
        _let_every_character_through()
        _buffer_output()
        # None at the end of a command, or the status of `ctx.exit`.
        status: int | None = None
        try:
            status = super().main(*args, **{**settings, "standalone_mode": False})
            sys.stdout.flush()
        except BrokenPipeError:
            forget_output()
            status = Status.READER_GONE
        except (OSError, ImportError) as error:
            from sessiond.cli.ui.failures import explain, report

            forget_output()
            # What standard output does not take may be what a failed command says.
            failure = explain(error)
            if failure is None:
                raise
            status = status or report(failure, as_json=False)
        except click.Abort:
            status = Status.INTERRUPTED
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            status = error.exit_code
        except click.ClickException as error:
            from sessiond.cli.ui.failures import report, usage

            # An error in the command line before a command is known.
            context = error.ctx if isinstance(error, click.UsageError) else None
            as_json = context is not None and wants_json(context)
            status = report(usage(error), as_json=as_json)
        sys.exit(status)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would end with status 1.
            forget_output()
            ctx.exit(Status.READER_GONE)
        except Exception as error:
            # Imported here: a command that succeeds, such as a daemon, needs none of it.
            from sessiond.cli.ui.failures import explain, report

            failure = explain(error, named_session(ctx))
            if failure is None:
                raise
            ctx.exit(report(failure, as_json=wants_json(ctx)))


def _buffer_output() -> None:
    """Put a buffer before standard output if Python runs unbuffered.

    Without a buffer Python forgets the rest of a short write, and with it that the reader went away.
    """
    raw = getattr(sys.stdout, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=True,
            write_through=True,
        )


def _let_every_character_through() -> None:
    r"""Spell characters that the locale lacks as in JSON (`\u65e5`), so that no text ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    """Open /dev/null for each standard stream that the starter of this process has closed.

    Otherwise the next socket or file would get the stream's number and receive its output.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number is the stream's own
            setattr(sys, name, os.fdopen(opened, "r" if name == "stdin" else "w"))
