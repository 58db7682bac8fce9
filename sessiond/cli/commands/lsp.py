"""`sessiond lsp`: the language server that an editor starts."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, place_options, start_option, stdio_option


@click.command(
    "lsp",
    cls=Command,
    examples=("sessiond lsp", "sessiond lsp --profile work --no-start"),
)
@place_options
@stdio_option
@start_option
def lsp(place: DaemonPlace, *, may_start: bool) -> None:
    """Show session files in an editor: outline, folding, problems with fixes, search, commands.

    A language server on standard input and output, for session files of every format that sessiond
    knows (*.jsonl). At an entry the editor can branch, label, show the context and compact.
    The server asks the daemon, which is started if none runs. docs/editors.md says
    how to set up an editor. Logs go to standard error, never with content.

    \b
    Exit status: 0 if the editor said goodbye, 1 if it went away.
    """
    from pathlib import Path

    from sessiond.cli.connect.autostart import join
    from sessiond.cli.connect.target import find_socket, require_meant_on
    from sessiond.cli.ui.command_terms import placed
    from sessiond.cli.ui.failure import Failure
    from sessiond.daemon.process_log import configure_log
    from sessiond.lsp.link import CannotJoin
    from sessiond.lsp.server import serve

    configure_log()
    context = click.get_current_context()

    def find(start: bool) -> Path:  # noqa: FBT001 - the shape of Join
        # The server asks in a thread, where click knows of no command.
        with context.scope(cleanup=False):
            try:
                path = join(place).socket if start and may_start else find_socket(place)
                require_meant_on(place, path)
            except Failure as failure:
                raise CannotJoin(placed(f"{failure.what}: {failure.then}")) from failure
        return path

    raise SystemExit(serve(find))


COMMAND = lsp
