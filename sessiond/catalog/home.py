"""The home of a catalog: its rows name files by absolute paths, and a home may be copied or moved.

Law: no row of a catalog names a session file of another home's profile. Where the catalog is opened in another
folder than before, the paths below the folder that it was in become paths below the folder that it is in, in one
transaction with the new name of the folder.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

_HOME: Final = "home"
"""Name of the value in `meta` that is a path and no number; SQLite keeps it as it is."""


def bring_home(connection: sqlite3.Connection, folder: Path) -> None:
    """Let the rows of a catalog name the files of the profile in `folder`. Raises sqlite3.Error.

    A catalog of an earlier version names no folder. Its rows tell by their form that they mean a profile of this
    name elsewhere; a row whose file is not here is deleted then, and made anew from the folder.
    """
    (found,) = connection.execute(
        "SELECT (SELECT value FROM meta WHERE name = ?)", (_HOME,)
    ).fetchone()
    if found == str(folder):
        return
    with connection:
        rows = connection.execute("SELECT session_id, path FROM sessions").fetchall()
        for session_id, path in rows:
            inside = _inside(path, found, folder)
            if inside is None:
                continue
            here = folder / inside
            if found is None and not here.exists():
                for table in ("sessions", "tags"):
                    connection.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))  # noqa: S608
                continue
            connection.execute(
                "UPDATE sessions SET path = ?, info = CASE WHEN json_valid(CAST(info AS TEXT))"
                " THEN CAST(json_set(CAST(info AS TEXT), '$.path', ?) AS BLOB) ELSE info END"
                " WHERE session_id = ?",
                (str(here), str(here), session_id),
            )
        connection.execute(
            "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", (_HOME, str(folder))
        )


def _inside(path: str, before: str | None, folder: Path) -> str | None:
    """Return the part of a path behind the folder that the catalog was in; None for a path elsewhere."""
    if path.startswith(f"{folder}/"):
        return None
    if before is not None:
        return path.removeprefix(f"{before}/") if path.startswith(f"{before}/") else None
    parts = Path(path).parts
    return "/".join(parts[-2:]) if parts[-4:-2] == folder.parts[-2:] else None
