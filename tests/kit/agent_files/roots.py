"""Folders laid out as the programs lay them out: homes of Claude Code, Codex, Gemini CLI and opencode.

No file is sparse: a hole would read as zero bytes, which no program writes. A big file gets its size from
outputs of tools that repeat one block, so that hundreds of megabytes are written at the speed of the disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, Protocol

import zstandard

from tests.kit.agent_files.claude_moves import PLAIN as PLAIN_CLAUDE
from tests.kit.agent_files.claude_moves import claude_script
from tests.kit.agent_files.codex import CodexScript
from tests.kit.agent_files.codex_moves import PLAIN as PLAIN_CODEX
from tests.kit.agent_files.codex_moves import codex_child, codex_copy, codex_script
from tests.kit.agent_files.dice import START_MS, Sizes, spelled, stamp
from tests.kit.agent_files.gemini_moves import PLAIN as PLAIN_GEMINI
from tests.kit.agent_files.gemini_moves import gemini_script, gemini_subagent
from tests.kit.agent_files.opencode import bytes_in, connected, make_database, play
from tests.kit.agent_files.opencode_moves import PLAIN as PLAIN_OPENCODE
from tests.kit.agent_files.opencode_moves import opencode_script
from tests.kit.agent_files.opencode_rows import PLAIN as PLAIN_ROWS
from tests.kit.agent_files.opencode_rows import opencode_rows_script
from tests.kit.agent_files.writing import write_fast

Kind = Literal["main", "subagent", "fork", "segment", "copy", "big"]

HOUR_MS: Final = 3_600_000
RESULT_BYTES: Final = 1 << 20


class Script(Protocol):
    """Script of any agent that writes lines."""

    def steps(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each move and its lines."""
        ...


@dataclass(frozen=True)
class Made:
    """A file that was made: its path, its session, what kind it is."""

    path: Path
    session_id: str
    kind: Kind = "main"
    twin: Path | None = None
    """Another file with the same session, which loses against this one: an archived or a packed copy."""


@dataclass(frozen=True)
class Plan:
    """Size of a root: its sessions, the sizes of each, and how many big files of how many bytes it has."""

    seed: int = 0
    files: int = 12
    sizes: Sizes = field(default_factory=lambda: Sizes(turns=12))
    big_files: int = 0
    big_bytes: int = 32 << 20

    def start_ms(self, number: int) -> int:
        """Return when a session starts: an hour after the one before."""
        return START_MS + number * HOUR_MS

    @property
    def big_sizes(self) -> Sizes:
        """Return sizes that give more than the bytes of a big file: of three moves, two have a result."""
        turns = 2 * (self.big_bytes // RESULT_BYTES) + 6
        return replace(self.sizes, turns=turns, result_bytes=RESULT_BYTES)

    def lines_of(self, script: Script, *, big: bool) -> Iterator[bytes]:
        """Yield the lines of a script; a big one ends with the move that reaches the bytes."""
        written = 0
        for _, lines in script.steps():
            yield from lines
            written += sum(len(line) + 1 for line in lines)
            if big and written >= self.big_bytes:
                return


def slug_of(cwd: str) -> str:
    """Return the name that Claude Code gives the folder of a working directory."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in cwd)


def _dated(path: Path, time_ms: int) -> None:
    """Give a file the time of its last line, so that lists have one order in every run."""
    os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


# Claude Code.


def make_claude_root(home: Path, plan: Plan) -> list[Made]:
    """Make `projects/<slug>/<uuid>.jsonl` with the folders of subagents; return the files in order of age."""
    found: list[Made] = []
    for number in range(plan.files + plan.big_files):
        big = number >= plan.files
        sizes = plan.big_sizes if big else plan.sizes
        name = f"{plan.seed} root {number}"
        start_ms = plan.start_ms(number)
        script = (
            claude_script(name, sizes, moves=PLAIN_CLAUDE, start_ms=start_ms)
            if big
            else claude_script(name, sizes, start_ms=start_ms)
        )
        session_id = script.whose.session_id
        folder = home / "projects" / slug_of(script.whose.cwd)
        path = folder / f"{session_id}.jsonl"
        write_fast(path, plan.lines_of(script, big=big))
        _dated(path, script.dice.now_ms)
        found.append(Made(path, session_id, "big" if big else "main"))
        for one in script.subagents:
            own = folder / session_id / "subagents" / f"agent-{one.agent_id}.jsonl"
            write_fast(own, one.lines)
            _dated(own, script.dice.now_ms)
            own.with_suffix(".meta.json").write_text(json.dumps(one.meta, indent=2))
            found.append(Made(own, session_id, "subagent"))
    # Files beside the sessions that are none.
    project = found[0].path.parent if found else home / "projects"
    write_fast(home / "history.jsonl", [b'{"display":"hi","timestamp":1}'])
    (project / "memory").mkdir(parents=True, exist_ok=True)
    (project / "memory" / "MEMORY.md").write_text("notes\n")
    (project / "00000000-0000-4000-8000-000000000000.jsonl").touch()
    write_fast(project / "notes.jsonl", [b'{"a":1}'])
    return found


# Codex.


def rollout_path(home: Path, script: CodexScript) -> Path:
    """Return where Codex puts a rollout that is not archived."""
    day, time = stamp(script.started_ms).split("T")
    clock = time[:8].replace(":", "-")
    own = script.thread
    name = own.thread_id if own.segment_id is None else f"{own.thread_id}_{own.segment_id}"
    return home / "sessions" / day.replace("-", "/") / f"rollout-{day}T{clock}-{name}.jsonl"


def pack(path: Path) -> Path:
    """Write the packed copy of a file beside it."""
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    os.utime(packed, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    return packed


def make_codex_root(home: Path, plan: Plan) -> list[Made]:
    """Make `sessions/YYYY/MM/DD/rollout-….jsonl`, archived and packed ones, and names of some threads.

    Every second parent is paginated, with a fork and a segment in files of their own; every fourth is
    copied by a legacy fork. Every fifth file is archived, every seventh packed; twins of both kinds exist.
    """
    found: list[Made] = []
    scripts = _codex_scripts(plan)
    names: list[bytes] = []
    for number, (script, lines, kind) in enumerate(scripts):
        path = rollout_path(home, script)
        write_fast(path, lines)
        _dated(path, script.dice.now_ms)
        path, twin = _put_away(home, path, number) if kind != "big" else (path, None)
        found.append(Made(path, script.thread.thread_id, kind, twin))
        if number % 3 == 0:
            for words in ("first name", f"name {number}"):
                one = {
                    "id": script.thread.thread_id,
                    "thread_name": words,
                    "updated_at": script.dice.tick(),
                }
                names.append(spelled(one))
    write_fast(home / "session_index.jsonl", names)
    write_fast(home / "history.jsonl", [b'{"session_id":"x","ts":1,"text":"hi"}'])
    return found


def _put_away(home: Path, path: Path, number: int) -> tuple[Path, Path | None]:
    """Archive or pack some files; return the path that counts, and perhaps the copy that does not."""
    archive = home / "archived_sessions"
    archive.mkdir(exist_ok=True)
    if number % 10 == 4:
        return path.rename(archive / path.name), None
    if number % 10 == 9:
        copy = archive / path.name
        copy.write_bytes(path.read_bytes())
        return path, copy
    if number % 14 == 6:
        packed = pack(path)
        path.unlink()
        return packed, None
    if number % 14 == 13:
        return path, pack(path)
    return path, None


def _codex_scripts(plan: Plan) -> Iterator[tuple[CodexScript, Iterable[bytes], Kind]]:
    """Yield the scripts of a root with their lines: parents before their forks."""
    made = 0
    number = 0
    while made < plan.files:
        name = f"{plan.seed} root {number}"
        start_ms = plan.start_ms(4 * number)
        script = codex_script(name, plan.sizes, paginated=number % 2 == 1, start_ms=start_ms)
        family: list[tuple[CodexScript, list[bytes], Kind]] = [(script, list(script), "main")]
        if number % 4 == 0:
            copy = codex_copy(name, script, family[0][1], plan.sizes)
            family.append((copy, list(copy), "copy"))
        if script.cuts:
            later = start_ms + HOUR_MS
            fork = codex_child(name, script.cuts[0], plan.sizes, segment=False, start_ms=later)
            family.append((fork, list(fork), "fork"))
            cut, later = fork.cuts[-1], start_ms + 2 * HOUR_MS
            one = codex_child(f"{name} s", cut, plan.sizes, segment=True, start_ms=later)
            family.append((one, list(one), "segment"))
        yield from family[: plan.files - made]
        made += len(family)
        number += 1
    for one_big in range(plan.big_files):
        start_ms = plan.start_ms(4 * (number + one_big))
        sizes = plan.big_sizes
        script = codex_script(f"{plan.seed} big {one_big}", sizes, moves=PLAIN_CODEX,
                              start_ms=start_ms)  # fmt: skip
        yield script, plan.lines_of(script, big=True), "big"


# Gemini CLI.


def make_gemini_root(home: Path, plan: Plan) -> list[Made]:
    """Make `tmp/<slug>/chats/session-….jsonl` with `.project_root` and `projects.json`, and subagents' chats."""
    found: list[Made] = []
    projects: dict[str, str] = {}
    for number in range(plan.files + plan.big_files):
        big = number >= plan.files
        slug = ("notes", "maps")[number % 2]
        cwd = f"/home/ann/{slug}"
        name, start_ms = f"{plan.seed} root {number}", plan.start_ms(number)
        script = (
            gemini_script(name, plan.big_sizes, moves=PLAIN_GEMINI, cwd=cwd, start_ms=start_ms)
            if big
            else gemini_script(name, plan.sizes, cwd=cwd, start_ms=start_ms)
        )
        minute = stamp(start_ms)[:16].replace(":", "-")
        chats = home / "tmp" / slug / "chats"
        path = chats / f"session-{minute}-{script.session_id[:8]}.jsonl"
        write_fast(path, plan.lines_of(script, big=big))
        _dated(path, script.dice.now_ms)
        found.append(Made(path, script.session_id, "big" if big else "main"))
        if number % 5 == 2 and not big:
            own = gemini_subagent(name, script, Sizes(turns=3))
            below = chats / script.session_id / f"{own.session_id}.jsonl"
            write_fast(below, own)
            _dated(below, own.dice.now_ms)
            found.append(Made(below, own.session_id, "subagent"))
        (chats.parent / ".project_root").write_text(cwd)
        write_fast(chats.parent / "logs.json", [b"[]"])
        projects[cwd] = slug
    home.mkdir(parents=True, exist_ok=True)
    (home / "projects.json").write_text(json.dumps({"projects": projects}, indent=2))
    return found


# opencode.


def make_opencode_root(home: Path, plan: Plan, *, is_newer: bool = False) -> list[Made]:
    """Make `opencode.db` with all sessions, those of subagents and forks included, and files beside it.

    The path of a session is a row of the database. A big session has long outputs.
    """
    path = make_database(home / "opencode.db", is_newer=is_newer)
    make = opencode_rows_script if is_newer else opencode_script
    plain = PLAIN_ROWS if is_newer else PLAIN_OPENCODE
    found: list[Made] = []
    with closing(connected(path)) as connection:
        for number in range(plan.files + plan.big_files):
            name, start_ms = f"{plan.seed} root {number}", plan.start_ms(number)
            big = number >= plan.files
            script = (
                make(name, plan.big_sizes, moves=plain, start_ms=start_ms)
                if big
                else make(name, plan.sizes, start_ms=start_ms)
            )
            written = 0
            for _, transactions in script.steps():
                play(connection, transactions)
                written += bytes_in(transactions) if big else 0
                if big and written >= plan.big_bytes:
                    break
            for talk in script.talks:
                forked = talk.columns.get("fork_session_id") is not None
                below: Kind = "subagent" if talk.columns.get("parent_id") else "main"
                kind: Kind = "fork" if forked else "big" if big else below
                found.append(Made(path / talk.id, talk.id, kind))
    _dated(path, plan.start_ms(plan.files + plan.big_files))
    for name in ("log", "snapshot"):
        (home / name).mkdir(exist_ok=True)
    write_fast(home / "log" / "dev.log", [b"INFO  service=default version=1.18.33"])
    write_fast(home / "auth.json", [b"{}"])
    return found
