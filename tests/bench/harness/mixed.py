"""Folders of sessions of several programs, as the exports of one session, kept in the cache.

Law: as in `stored`: the name of a cached folder says what it contains, and no measurement changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from tests.bench.harness.servers import Daemon, Session
from tests.bench.harness.stored import many_pi

__all__ = ["KINDS", "mixed"]

KINDS = ("native", "pi", "operator", "piglet", "sharur")


class _Imported(Struct):
    session: Session


class _Exported(Struct):
    content: str


def mixed(
    cache: Path,
    sessions: int,
    entries: int,
    start: Callable[[], AbstractContextManager[Daemon]],
) -> Path:
    """Return a folder with a folder for each program, which has its share of the sessions."""
    folder = cache / f"mixed-{sessions}-x-{entries}"
    if folder.exists():
        return folder
    (source, *_) = sorted(many_pi(cache, 1, entries).iterdir())
    part = folder.with_suffix(".part")
    share = sessions // len(KINDS)
    with start() as server, server.connect() as link:
        asked = {"path": str(source), "cwd": "/bench"}
        made = link.ask("session/import", asked, _Imported).session.id
        for kind in KINDS:
            wanted = {"session_id": made, "format": kind}
            text = link.ask("session/export", wanted, _Exported).content.encode()
            (part / kind).mkdir(parents=True, exist_ok=True)
            for number in range(share):
                name = f"{kind}-{number:06d}"
                path = part / kind / f"{name}.jsonl"
                path.write_bytes(text.replace(made.encode(), name.encode()))
    return part.rename(folder)
