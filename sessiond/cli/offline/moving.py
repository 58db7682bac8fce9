"""`import --move-to`: a whole profile into the configured database, or back into files.

No daemon can do this: a session must not change on its way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, Literal

from sessiond.cli.connect.target import bad_configuration, layout_of
from sessiond.cli.options import Shared
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.failures import report
from sessiond.cli.ui.output import emit, note, say
from sessiond.cli.ui.progress import Steps
from sessiond.config.config_file import BadConfiguration
from sessiond.config.configuration import Sources
from sessiond.daemon.exit_status import Status
from sessiond.daemon.moving import Moved, NotMoved, Side, move_profile
from sessiond.journal.profile.lock import Held
from sessiond.service.database.moving.joining import Keep
from sessiond.visible import counted

OnConflict = Literal["keep-source", "keep-target"]
_KEEPS: Final[Mapping[OnConflict, Keep]] = {"keep-source": "source", "keep-target": "target"}
_AGAIN: Final = "it stays where it was; move again"
_TAKEN: Final = "both stay where they are; to move the one, delete the other, and move again"
_OTHER_VALUES: Final = (
    "both stay where they are; move again with --on-conflict keep-source or --on-conflict keep-target,"
    " and the values of the other side are put aside in the profile"
)


def move(shared: Shared, to: Side, on_conflict: OnConflict | None, *, dry_run: bool) -> Status:
    """Move, and print what was moved; return the exit status. Raises Failure."""
    steps = Steps("move")
    sources = Sources(os.environ, shared.place.config)
    try:
        layout = layout_of(shared.place)
        keep = None if on_conflict is None else _KEEPS[on_conflict]
        moved = move_profile(layout, sources, to, steps, dry_run=dry_run, keep=keep)
    except BadConfiguration as error:
        raise bad_configuration(error) from error
    except Held:
        then = "end the daemon with `sessiond stop`, and move then"
        raise Failure("a daemon serves this profile", then) from None
    finally:
        steps.end()
    if shared.as_json:
        emit(moved)
    else:
        _tell(moved)
    return Status.FAILED if moved.failed else Status.DONE


def _next(one: NotMoved) -> str:
    """Return what an operator does next about a thing that was not moved."""
    if not one.taken:
        return _AGAIN
    return _TAKEN if one.what == "sessions" else _OTHER_VALUES


def _tell(moved: Moved) -> None:
    for one in moved.failed:
        what = f"{one.what}: {one.name}: {one.message}"
        report(Failure(what, _next(one)), as_json=False)
    for said in moved.noted:
        note(f"{said.what}: {said.name}: {said.message}")
    done = (
        counted(moved.sessions, "session"),
        f"{counted(moved.states, 'namespace')} of the state store",
        f"{counted(moved.secrets, 'namespace')} of secrets",
    )
    say(f"{', '.join(done)} {'would be moved' if moved.dry_run else 'moved'}")
    if moved.dry_run:
        note("nothing was moved: this was a dry run")
