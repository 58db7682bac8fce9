"""Places of programs' session files, and the names that each program gives to new files.

Law: pure, and one row of `PLACES` for each dialect. The rows say where to look; whether a folder is
there is for the caller to find out. In a folder, "*" stands for any one name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

Appears = Literal["created", "entry", "said", "answered"]
"""Moment at which a program writes a new file: at once, with the first entry, with the first message of
the user or the model, or with the first answer of the model."""

Environ = Mapping[str, str]


class Home(Struct, frozen=True):
    """A folder in which a program keeps its files; `by_project` if each project has a folder in it."""

    folder: str
    by_project: bool = False


class Places(Struct, frozen=True):
    """The places of one program's files."""

    homes: Callable[[Environ, str], Sequence[Home]]
    """The folders of this program, from the environment and the user's home."""
    file_name: Callable[[datetime, str], str]
    """The name of a new file, from the local time of its creation and the session's id."""
    appears: Appears
    project_folder: Callable[[str], str] | None = None
    """The name of a project's folder, from the path of the project; None if there are no such folders."""
    follows_links: bool = False
    """True if a project is named by the path without symbolic links."""
    folder_mode: int = 0o755
    """Permissions of a new folder of a project, before the umask."""


def places_of(dialect: str) -> Places:
    """Return the places of a dialect's program."""
    return PLACES[dialect]


def _utc_stamp(moment: datetime) -> str:
    """Return a time as pi and sharur spell it in names: 2026-01-02T03-04-05-678Z."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00").replace(":", "-").replace(".", "-") + "Z"


# -- native ----------------------------------------------------------------------------------------


def _no_homes(_environ: Environ, _home: str) -> Sequence[Home]:
    return ()


def _native_name(moment: datetime, session_id: str) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H-%M-%S-%f}_{session_id}.jsonl"


# -- pi --------------------------------------------------------------------------------------------


def _pi_homes(environ: Environ, home: str) -> Sequence[Home]:
    agent = environ.get("PI_CODING_AGENT_DIR") or f"{home}/.pi/agent"
    named = environ.get("PI_CODING_AGENT_SESSION_DIR")
    usual = Home(f"{_expanded(agent, home)}/sessions", by_project=True)
    return [Home(_expanded(named, home)), usual] if named else [usual]


def _pi_name(moment: datetime, session_id: str) -> str:
    return f"{_utc_stamp(moment)}_{session_id}.jsonl"


def _pi_project(cwd: str) -> str:
    path = cwd[1:] if cwd[:1] in {"/", "\\"} else cwd
    return f"--{path.replace('/', '-').replace(chr(92), '-').replace(':', '-')}--"


# -- Operator --------------------------------------------------------------------------------------


def _operator_homes(_environ: Environ, home: str) -> Sequence[Home]:
    return [Home(f"{home}/.operator/profiles/*/sessions")]


def _operator_name(moment: datetime, session_id: str) -> str:
    return f"{moment:%Y-%m-%dT%H-%M-%S-%f}_{session_id}.jsonl"


# -- piglet ----------------------------------------------------------------------------------------


def _piglet_homes(environ: Environ, home: str) -> Sequence[Home]:
    named = environ.get("XDG_CONFIG_HOME", "")
    root = named if named.startswith("/") else f"{home}/.config"
    return [Home(f"{root}/piglet/sessions")]


def _piglet_name(_moment: datetime, session_id: str) -> str:
    return f"{session_id}.jsonl"


# -- sharur ----------------------------------------------------------------------------------------


def _sharur_homes(_environ: Environ, home: str) -> Sequence[Home]:
    return [Home(f"{home}/.sharur/sessions", by_project=True)]


def _sharur_name(moment: datetime, session_id: str) -> str:
    # sharur writes the milliseconds as zeros.
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H-%M-%S}-000Z_{session_id}.jsonl"


def _sharur_project(cwd: str) -> str:
    return f"--{cwd.replace('/', '-').strip('-')}--"


def _expanded(path: str, home: str) -> str:
    path = home + path[1:] if path == "~" or path.startswith("~/") else path
    return path.rstrip("/")


PLACES: Final[Mapping[str, Places]] = {
    "native": Places(_no_homes, _native_name, "answered"),
    "pi": Places(_pi_homes, _pi_name, "said", project_folder=_pi_project),
    "operator": Places(_operator_homes, _operator_name, "answered"),
    "piglet": Places(_piglet_homes, _piglet_name, "created"),
    "sharur": Places(
        _sharur_homes, _sharur_name, "entry", project_folder=_sharur_project, follows_links=True
    ),
}
