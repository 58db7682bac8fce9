"""Lists of sessions as people see them: rows below headings, a block for each agent if asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sessiond.cli.ui.output import grid, is_terminal, least_width, say, table, terminal_width
from sessiond.cli.ui.render import folder, short_session_ids, when
from sessiond.cli.ui.text import fitted, one_line
from sessiond.visible import counted, files_read

Json = Mapping[str, Any]

_TITLE_WIDTH: Final = 48
_CUT: Final = ("TITLE", "FOLDER")
_SHOWN: Final = ("STATUS", "TURNS", "MESSAGES", "MODEL", "TOKENS", *_CUT)
_TABLE_WIDTH: Final = 80
# What goes first where a terminal has no room for all columns.
_SPARE: Final = ("TOKENS", "MODEL", "MESSAGES", "TURNS", "AGENT", "FOLDER", "STATUS")
# Programs count on the order of these.
_PIPED: Final = ("ID", "UPDATED", "STATUS", "TURNS", "MESSAGES", *_CUT, "AGENT")


def session_table(sessions: Sequence[Json]) -> None:
    """Print one row per session, subagents below their parents.

    A terminal shows the agents where there are several, and as many of the other columns as there is
    room for.
    """
    headings, rows = _table(sessions)
    table(headings, rows, cut=_CUT)


@contextmanager
def sessions_so_far() -> Generator[Callable[[Sequence[Json], Json], None]]:
    """Yield a function that shows the sessions that a look has found so far, and how far the look is.

    The first of them stand on standard error of a terminal, and are wiped at the end.
    """
    from rich.console import Console, Group
    from rich.live import Live

    console = Console(stderr=True, highlight=False, quiet=not sys.stderr.isatty())
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def show(sessions: Sequence[Json], looking: Json) -> None:
            total = looking["total"]
            said = "" if total is None else f"list: {files_read(looking['done'], total)}"
            shown = sessions[: max(1, console.size.height - 3)]
            live.update(Group(grid(*_table(shown), _CUT), said), refresh=True)

        yield show


def session_blocks(sessions: Sequence[Json], *, has_more: bool) -> None:
    """Print the sessions of each agent as a table of their own, below the agent and their number.

    `has_more` tells that a list has further pages. Programs get the rows alone.
    """
    ids = short_session_ids(session["id"] for session in sessions)
    blocks: dict[str, list[Json]] = {}
    for session in sessions:
        blocks.setdefault(session["agent_program"] or "", []).append(session)
    for at, (agent, block) in enumerate(blocks.items()):
        if is_terminal():
            count = counted(len(block), "session", has_more=has_more)
            say(f"\n{agent}: {count}" if at else f"{agent}: {count}")
        headings, rows = _fitting(block, ids)
        table(headings, rows, cut=_CUT)


def _table(sessions: Sequence[Json]) -> tuple[Sequence[str], list[list[str]]]:
    """Return the headings of a table of sessions, and the rows."""
    has_agents = len({session["agent_program"] for session in sessions}) > 1
    ids = short_session_ids(session["id"] for session in sessions)
    return _fitting(sessions, ids, *(["AGENT"] if has_agents else []))


def _fitting(
    sessions: Sequence[Json], ids: Mapping[str, str], *more: str
) -> tuple[Sequence[str], list[list[str]]]:
    """Return the headings that a terminal has room for, or those of a pipe, and the rows."""
    if not is_terminal():
        return _PIPED, _rows(_PIPED, sessions, ids)
    every = ("ID", "UPDATED", *more, *_SHOWN)
    rows = _rows(every, sessions, ids)
    told = [at for at, name in enumerate(every) if name in _CUT or any(row[at] for row in rows)]
    # On fewer columns each row says all in several lines.
    for spared in range(len(_SPARE) + 1 if terminal_width() >= _TABLE_WIDTH else 1):
        shown = [at for at in told if every[at] not in _SPARE[:spared]]
        headings, cells = [every[at] for at in shown], [[row[at] for at in shown] for row in rows]
        if least_width(headings, cells, _CUT) <= terminal_width():
            return headings, cells
    return every, rows


def _rows(
    headings: Sequence[str], sessions: Sequence[Json], ids: Mapping[str, str]
) -> list[list[str]]:
    rows = [_session_row(one, ids[one["id"]]) for one in _below_parents(sessions)]
    return [[row[name] for name in headings] for row in rows]


def _below_parents(sessions: Sequence[Json]) -> Iterator[Json]:
    """Yield the sessions in order, those that were started for a task behind the session's own."""
    there = {session["id"] for session in sessions}
    tasks: dict[str, list[Json]] = {}
    firsts: list[Json] = []
    for session in sessions:
        parent = str(session["lineage"].get("parent_id")) if _is_task(session) else ""
        (tasks.setdefault(parent, []) if parent in there else firsts).append(session)
    for session in firsts:
        yield session
        yield from tasks.get(session["id"], ())


def _is_task(session: Json) -> bool:
    return bool(session["lineage"].get("subagent"))


def _session_row(session: Json, shown_id: str) -> Mapping[str, str]:
    words = session.get("title") or session.get("first_message") or ""
    if session.get("archived"):
        words = f"[archived] {words}"
    if is_terminal():
        words = fitted(one_line(f"└ {words}" if _is_task(session) else words), _TITLE_WIDTH)
    usage = session.get("usage")
    return {
        "ID": shown_id,
        "UPDATED": when(session.get("updated_at")),
        "AGENT": session["agent_program"] or "",
        "STATUS": one_line(_status(session)),
        "TURNS": _figure(session, session["turn_count"]),
        "MESSAGES": _figure(session, session["message_count"]),
        "MODEL": one_line(session.get("model") or ""),
        "TOKENS": _figure(session, usage["total_tokens"]) if usage else "",
        "TITLE": words,
        "FOLDER": folder(session.get("cwd") or ""),
    }


def _status(session: Json) -> str:
    """Return how a session stands: for people, whether its program runs, before how its last turn ended."""
    running = session.get("running") if is_terminal() else None
    return running or session.get("status") or ""


def _figure(session: Json, count: int | None) -> str:
    """Return a figure; a list that read only a part of the file has seen at least so many."""
    if count is None:
        return ""
    return f"{count}+" if session.get("partial") else str(count)
