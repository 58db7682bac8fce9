"""`sessiond roots`: list, add and remove folders of other programs."""

from __future__ import annotations

from typing import Any, Final

import click

from sessiond.cli.arguments import FOLDER
from sessiond.cli.connect.conversation import answer, ask, connected
from sessiond.cli.options import Command, Shared, shared_options
from sessiond.cli.ui.output import say, table

_LARGE: Final = ((1_000_000, "M"), (1_000, "k"))
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


@click.command(
    "roots",
    cls=Command,
    examples=(
        "sessiond roots",
        "sessiond roots --json",
        "sessiond roots add --kind pi .",
        "sessiond roots add --no-outputs .",
        "sessiond list --root .",
        "sessiond roots remove .",
    ),
)
@shared_options
@click.option(
    "--kind",
    metavar="NAME",
    help="Program whose files are in the folder, as pi.  [default: what the folder or its files tell]",
)
@click.option(
    "--outputs/--no-outputs",
    default=None,
    help="Whether searches read the outputs of tools there; add a root again to change it.",
)
@click.argument("action", type=click.Choice(["list", "add", "remove"]), default="list")
@click.argument("folder", type=FOLDER, required=False)
def roots(
    shared: Shared, action: str, folder: str | None, *, kind: str | None, outputs: bool | None
) -> None:
    """List the folders with session files of other programs, add one, or remove one.

    A root is a folder whose sessions are listed, searched and watched beside your own. They are
    read and changed where they lie, in the format of their program, which can go on with them.
    Nothing is copied, and a folder that is removed stays as it is. The files of Claude Code, Codex,
    Gemini CLI and opencode are only read: `sessiond fork` makes a session of one that can be
    changed.

    The list shows the roots, then what is on this machine and no root, with the number of sessions
    and their size. It looks at names and sizes, and opens nothing but the databases of roots: `-`
    stands for the sessions of a database that is no root. INDEXED counts the characters that
    searches so far have put into the index, and says "(full)" where older sessions of the root have
    no room in it.
    """
    if action == "list" and folder is not None:
        raise click.UsageError("a folder is to add or to remove: `sessiond roots add FOLDER`")
    if action != "list" and folder is None:
        raise click.UsageError(f"name the folder: `sessiond roots {action} FOLDER`")
    if action != "add" and kind is not None:
        raise click.UsageError("--kind is for add")
    if action != "add" and outputs is not None:
        raise click.UsageError("--outputs and --no-outputs are for add")
    asked = {"action": action, "path": folder, "kind": kind, "outputs": outputs}
    with connected(shared) as client:
        found = ask(client, "catalog/roots", **asked)
    answer(shared, found, _show)


def _show(found: dict[str, Any]) -> None:
    if not found["roots"]:
        say("no roots, and no folder of a known program on this machine")
        return
    rows = [
        (
            one["kind"],
            one["path"],
            _count(one["sessions"]),
            _size(one["bytes"]),
            _indexed(one),
            _state(one),
        )
        for one in found["roots"]
    ]
    table(("PROGRAM", "FOLDER", "SESSIONS", "SIZE", "INDEXED", "STATE"), rows)


def _state(root: dict[str, Any]) -> str:
    if root["reason"] is not None:
        return str(root["reason"])
    state = "added" if root["added"] else "found"
    if root["configured"]:
        state = "in the configuration"
    return state if root.get("outputs", True) else f"{state}, no outputs"


def _count(sessions: int | None) -> str:
    return "-" if sessions is None else str(sessions)


def _indexed(root: dict[str, Any]) -> str:
    """Return how many characters a search finds, in thousands and millions."""
    count = root["indexed_chars"]
    if not count and not root["index_full"]:
        return ""
    short = next((f"{count / one:.1f}{name}" for one, name in _LARGE if count >= one), str(count))
    return f"{short} (full)" if root["index_full"] else short


def _size(count: float) -> str:
    unit = 0
    while count >= 1000 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return (
        f"{count:.0f} {_UNITS[unit]}" if unit == 0 or count >= 10 else f"{count:.1f} {_UNITS[unit]}"
    )


COMMAND = roots
