"""`sessiond browse`: the terminal application."""

from __future__ import annotations

import sys

import click

from sessiond.cli.arguments import SESSION, absolute
from sessiond.cli.options import Command, DaemonPlace, Shared, place_options, start_option


@click.command(
    "browse",
    cls=Command,
    examples=("sessiond browse", "sessiond browse my-session"),
)
@place_options
@start_option
@click.argument("session", required=False, type=SESSION)
def browse(place: DaemonPlace, session: str | None, *, may_start: bool) -> None:
    """Look at sessions and change them, in the terminal, live.

    Begins with the sessions of this folder, or with the tree of SESSION. What any client appends is
    shown at once.

    \b
    Enter opens a session, then an entry; Esc goes back; ? shows every key; q quits.
    In a tree: B branch, F fork, R rebase, M merge, L label, E export, / search.
    In the list: Tab shows the forest, a the sessions of all projects.

    Colours are those of the terminal; NO_COLOR=1 shows none. Needs the package textual:
    in the checkout of sessiond, pip install '.[browse]'.

    \b
    Exit status: 0 if you quit, 2 without a terminal, 3 if no daemon answers, 4 if there is no
    such session, or several.
    """
    from importlib.util import find_spec

    from sessiond.cli.connect.conversation import connected, session_id
    from sessiond.cli.connect.target import find_socket
    from sessiond.cli.ui.command_terms import placed
    from sessiond.cli.ui.failure import Failure
    from sessiond.daemon.exit_status import Status
    from sessiond.installation import adding

    if find_spec("textual") is None:
        raise Failure("the package textual is not installed", adding("browse"))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        then = "use `sessiond list`, `sessiond tree` and `sessiond tail` in scripts"
        raise Failure("browse needs a terminal", then, Status.USAGE)

    # A session that does not exist is an error of the command line, told before the screen changes.
    with connected(Shared(place, as_json=False, may_start=may_start)) as client:
        found = None if session is None else session_id(client, session)

    from sessiond.browse.app import browse as run
    from sessiond.browse.link import CannotStart

    context = click.get_current_context()

    def start() -> None:
        from sessiond.cli.connect.autostart import join

        # The application starts a daemon in a thread, where click knows of no command.
        with context.scope(cleanup=False):
            try:
                join(place)
            except Failure as failure:
                raise CannotStart(placed(f"{failure.what}: {failure.then}")) from failure
            except OSError as error:
                raise CannotStart(placed(f"{error}: see `sessiond start`")) from error

    run(find_socket(place), start if may_start else None, absolute("."), found)


COMMAND = browse
