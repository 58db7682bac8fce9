"""`sessiond stdio`: the bridge that an editor or an agent starts."""

from __future__ import annotations

import signal
from contextlib import suppress

import click

from sessiond.cli.options import Command, DaemonPlace, place_options, stdio_option
from sessiond.cli.ui.failure import Failure
from sessiond.daemon.exit_status import Status


@click.command(
    "stdio",
    cls=Command,
    examples=("""echo '{"id":1,"method":"session/list"}' | sessiond stdio""",),
)
@place_options
@stdio_option
def stdio(place: DaemonPlace) -> None:
    """Speak the protocol on standard input and output, through the daemon.

    Joins the running daemon, or starts one. Lines and Content-Length framing both pass. Ends with 0
    when the input has ended and every request is answered, with 1 if the daemon ended first: run it
    again, and it joins the next daemon.
    """
    from sessiond.cli.connect.bridge import bridge
    from sessiond.cli.connect.probe import about, connect
    from sessiond.cli.connect.target import find_socket, require_meant_on
    from sessiond.cli.connect.versions import tell_another
    from sessiond.limits import ANSWER_SECONDS

    # An interrupt is the normal end of a bridge, not an error to report.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    path = find_socket(place)
    require_meant_on(place, path)
    sock = connect(path, ANSWER_SECONDS)
    if sock is None:
        from sessiond.cli.connect.autostart import join

        join(place)
        sock = connect(path, ANSWER_SECONDS)
    if sock is None:
        what = f"the daemon ended before it could be joined on {path}"
        raise Failure(what, "run it again", Status.NO_DAEMON)
    # A daemon that gives no answer here gives none to the bridge either.
    with suppress(Failure, OSError):
        if found := about(path, ANSWER_SECONDS):
            tell_another(found.version, found.build)
    if not bridge(sock):
        from sessiond.cli.connect.autostart import answering

        # A daemon that still answers closed this connection on purpose: the client sent `exit`.
        if answering(path) is None:
            raise Failure("the daemon ended", "run it again to join the next one")


COMMAND = stdio
