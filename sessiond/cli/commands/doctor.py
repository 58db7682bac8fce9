"""`sessiond doctor`: find problems of a profile, with their remedies."""

from __future__ import annotations

import click

from sessiond.cli.options import Command, DaemonPlace, json_option, place_options
from sessiond.cli.ui.output import emit, say
from sessiond.daemon.exit_status import Status


@click.command("doctor", cls=Command, examples=("sessiond doctor", "sessiond doctor --json"))
@json_option
@place_options
@click.pass_context
def doctor(ctx: click.Context, /, place: DaemonPlace, *, as_json: bool) -> None:
    """Examine a whole profile and print what is wrong and what to do.

    The checks: configuration, folders, socket, daemon, indexes, disk, database, every session file and draft,
    state, secrets and their key file, the trash, locks, and remains of crashes. No check changes a
    file or starts a daemon. Exit status 1 if something is wrong; then each line that begins with !! says what to do.
    With --json: {"ok", "checks": [{"check", "ok", "what", "next"}]}.
    """
    from sessiond.cli.offline.examination import examine, told
    from sessiond.cli.offline.examined_database import examine_database
    from sessiond.cli.offline.examined_files import examine_files
    from sessiond.cli.offline.examined_remains import examine_remains
    from sessiond.cli.offline.examined_state import examine_state

    found = (
        *examine(place),
        *examine_database(place),
        *examine_files(place),
        *examine_state(place),
        *examine_remains(place),
    )
    checks = [told(finding) for finding in found]
    well = all(check.ok for check in checks)
    if as_json:
        emit({"ok": well, "checks": checks})
    else:
        for check in checks:
            then = "" if check.next is None else f": {check.next}"
            say(f"{'ok' if check.ok else '!!'}  {check.check:8}  {check.what}{then}")
    if not well:
        ctx.exit(Status.FAILED)


COMMAND = doctor
