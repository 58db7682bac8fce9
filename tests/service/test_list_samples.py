"""The cost of a list over large files of other agents, and what a list must find in spite of that."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zstandard

from sessiond.dialects.agents.source_line import SourceLine
from sessiond.dialects.agents.source_line import source_line as read_line
from sessiond.journal.disk.files import Files
from sessiond.limits import (
    AGENT_LIST_BYTES_MAX,
    AGENT_LIST_STEP_BYTES,
    LIST_LINE_BYTES,
    SEARCH_TEXT_CHARS_MAX,
)
from sessiond.service.files.in_place import AgentFiles
from sessiond.service.thread_pool import ThreadPool
from sessiond.session.index import Session
from tests.kit.agent_roots import CLAUDE, CODEX, GEMINI, claude_line, codex_root
from tests.kit.house import House
from tests.kit.roots import add_root, pi_file
from tests.kit.sessions import SESSION, TIME

UUID = "c1a0de00-0000-4000-8000-{:012}"


class Counting(Files):
    """The machine's disk, with counts of calls and of bytes read."""

    def __init__(self) -> None:
        self.calls = Counter[str]()
        self.read_bytes = 0

    def pread(self, fd: int, count: int, offset: int) -> bytes:
        data = super().pread(fd, count, offset)
        self.calls["pread"] += 1
        self.read_bytes += len(data)
        return data

    def open_read(self, path: Path) -> int:
        self.calls["open"] += 1
        return super().open_read(path)

    def listdir(self, path: Path) -> list[str]:
        self.calls["listdir"] += 1
        return super().listdir(path)


@pytest.fixture
def lines_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the lines that readings have taken."""
    taken: list[int] = []

    def counted(number: int, line: bytes) -> SourceLine:
        taken.append(number)
        return read_line(number, line)

    monkeypatch.setattr("sessiond.dialects.agents.transcript.source_line", counted)
    return taken


def summed_up(path: Path, disk: Files, folder: Path) -> tuple[Session, bool]:
    """Return what a list reads of a file, and whether that is only a part."""
    files = AgentFiles(disk, folder)
    with files.hold(path) as held:
        found = files.recognise(path, held)
        assert found is not None
        log, indexer, is_part = files.summary(found, found.header.id, held)
        log.close()
    return indexer.session, is_part


def talk(first: int, count: int, size: int, **more: Any) -> bytes:
    """Return prompts of a size, each below the one before."""
    return b"".join(
        claude_line(UUID.format(n), UUID.format(n - 1) if n else None, f"turn {n} " + "x" * size)
        for n in range(first, first + count)
    )


def fact(kind: str, **members: Any) -> bytes:
    return json.dumps({"type": kind, "sessionId": CLAUDE.format(9), **members}).encode() + b"\n"


def answer(number: int, text: str) -> bytes:
    said = {"role": "assistant", "id": f"msg_{number}", "model": "opus",
            "content": [{"type": "text", "text": text}]}  # fmt: skip
    return claude_line(UUID.format(number), UUID.format(number - 1), "", message=said,
                       type="assistant")  # fmt: skip


def large(folder: Path, *parts: bytes) -> Path:
    """Write a file from parts, with a hole of two megabytes behind the first one."""
    path = folder / f"{CLAUDE.format(9)}.jsonl"
    with path.open("wb") as file:
        file.write(parts[0])
        file.seek(2 << 20, os.SEEK_CUR)
        file.write(b"\n" + b"".join(parts[1:]))
    return path


def test_a_list_reads_few_lines_of_a_large_file(tmp_path: Path, lines_read: list[int]) -> None:
    disk = Counting()
    path = large(tmp_path, talk(0, 200, 1000), talk(200, 200, 1000) + answer(400, "done"))
    session, is_part = summed_up(path, disk, tmp_path)
    assert is_part
    assert session.first_message is not None
    assert session.first_message.startswith("turn 0")
    assert session.has_assistant
    # The lines of one step at each end; recognition reads the beginning once more.
    assert len(lines_read) <= 50
    assert disk.calls["open"] == 1
    assert disk.calls["pread"] <= 4
    assert disk.read_bytes <= AGENT_LIST_BYTES_MAX


def test_a_list_reads_once_what_stands_before_the_lines_that_tell_an_agent(tmp_path: Path) -> None:
    disk = Counting()
    unknown = fact("file-history-snapshot", snapshot={"files": "z" * 3000}) * 10
    path = large(tmp_path, unknown + talk(0, 20, 500), talk(20, 60, 500))
    assert len(unknown) > AGENT_LIST_STEP_BYTES
    session, is_part = summed_up(path, disk, tmp_path)
    assert is_part
    assert (session.first_message or "").startswith("turn 0 ")
    assert disk.calls["open"] == 1
    assert disk.read_bytes <= AGENT_LIST_BYTES_MAX


def test_a_list_reads_little_of_a_large_packed_rollout(tmp_path: Path) -> None:
    (rollout,) = codex_root(tmp_path).glob("*/*/*/*000a.jsonl")
    noise = [os.urandom(1_000).hex() for _ in range(400)]
    note = '{"timestamp":"2026-11-02T00:00:00.000Z","type":"event_msg","payload":{"type":"%s"}}\n'
    content = rollout.read_bytes() + "".join(note % one for one in noise).encode()
    path = rollout.with_suffix(".jsonl.zst")
    path.write_bytes(zstandard.compress(content))
    assert path.stat().st_size > 4 * AGENT_LIST_BYTES_MAX
    disk = Counting()
    session, is_part = summed_up(path, disk, tmp_path)
    assert is_part
    assert session.first_message == "name a colour"
    # The index of the names is the other one.
    assert disk.calls["open"] == 2
    assert disk.read_bytes <= AGENT_LIST_BYTES_MAX + 1000


def test_a_list_reads_on_to_the_first_words_of_the_user(tmp_path: Path) -> None:
    hooks = fact("attachment", attachment={"content": "y" * 3000}) * 10
    path = large(tmp_path, hooks + talk(1, 100, 1000), talk(101, 100, 1000))
    assert len(hooks) > AGENT_LIST_STEP_BYTES
    session, _ = summed_up(path, Files(), tmp_path)
    assert (session.first_message or "").startswith("turn 1 ")


def test_a_list_reads_to_the_end_where_the_beginning_reaches_far(tmp_path: Path) -> None:
    hooks = fact("attachment", attachment={"content": "y" * 3000}) * 16
    path = tmp_path / f"{CLAUDE.format(9)}.jsonl"
    path.write_bytes(hooks + talk(1, 20, 700) + answer(21, "done"))
    assert AGENT_LIST_BYTES_MAX < path.stat().st_size < AGENT_LIST_BYTES_MAX + AGENT_LIST_STEP_BYTES
    session, is_part = summed_up(path, Files(), tmp_path)
    assert is_part
    assert session.has_assistant
    assert session.names[-1] == UUID.format(21)


def test_a_list_reads_back_as_far_as_an_answer(tmp_path: Path) -> None:
    end = answer(300, "the last answer") + talk(301, 30, 1000)
    path = large(tmp_path, talk(0, 100, 1000), talk(200, 100, 1000), end)
    session, _ = summed_up(path, Files(), tmp_path)
    assert session.has_assistant


@pytest.mark.parametrize(
    ("line", "name", "stated"),
    [
        (fact("custom-title", customTitle="a long talk"), "title", "a long talk"),
        (fact("ai-title", aiTitle="a long talk"), "auto_title", "a long talk"),
        (fact("tag", tag="urgent"), "tags", ["urgent"]),
    ],
)
def test_a_title_before_the_last_lines_is_found(
    tmp_path: Path, line: bytes, name: str, stated: object
) -> None:
    end = answer(300, "done") + line + talk(301, 30, 1000) + answer(331, "done")
    path = large(tmp_path, talk(0, 100, 1000), talk(200, 100, 1000), end)
    session, _ = summed_up(path, Files(), tmp_path)
    assert session.facts.get(name) == stated


def test_a_list_does_not_read_the_whole_rollout_that_a_fork_begins_with(
    tmp_path: Path, lines_read: list[int]
) -> None:
    root = codex_root(tmp_path)
    (fork,) = root.glob("*/*/*/*000b.jsonl")
    (base,) = root.glob("*/*/*/*000a.jsonl")
    before = base.read_bytes()
    note = b'{"timestamp":"2026-11-02T00:00:00.000Z","type":"event_msg","payload":{"type":"x"}}\n'
    many = note * (2 * AGENT_LIST_BYTES_MAX // len(note))
    base.write_bytes(before[:1583] + many)
    own = fork.read_bytes().replace(
        b'"end_byte_offset":1583', b'"end_byte_offset":%d' % (1583 + len(many))
    )
    assert own != fork.read_bytes()
    fork.write_bytes(own)
    session, is_part = summed_up(fork, Files(), tmp_path)
    assert is_part
    assert session.first_message == "name a colour"
    assert len(lines_read) < 500 < len(many) // len(note)


def test_a_fork_costs_a_list_few_calls(tmp_path: Path) -> None:
    root = codex_root(tmp_path)
    (fork,) = root.glob("*/*/*/*000b.jsonl")
    for number in range(50):
        (fork.parent / f"rollout-2026-11-02T00-00-00-{number:036}.jsonl").touch()
    disk = Counting()
    session, _ = summed_up(fork, disk, tmp_path)
    assert session.first_message == "name a colour"
    assert disk.calls["listdir"] <= 2
    assert disk.calls["open"] <= 9


# -- very long lines ------------------------------------------------------------------------------

MIB = 1 << 20
LONG = "\U0001f600" + "words " * (20 * MIB // 6)
"""A text of 20 MB, for which a string takes 80 MB."""


@contextmanager
def peak_below(bytes_max: int) -> Iterator[None]:
    """Require that the block's memory stays below a bound."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < bytes_max, f"{peak // MIB} MiB"


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_bytes(
        b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in lines)
    )
    return path


def long_claude(folder: Path) -> Path:
    said = [claude_line(UUID.format(n), UUID.format(n - 1) if n else None, LONG) for n in (0, 1)]
    path = folder / f"{CLAUDE.format(9)}.jsonl"
    path.write_bytes(b"".join(said) + answer(2, LONG))
    return path


def long_codex(folder: Path) -> Path:
    meta = {"id": CODEX.format("09"), "timestamp": TIME, "cwd": "/p", "instructions": LONG}
    said = [
        {"type": "message", "role": role, "content": [{"type": f"{way}_text", "text": LONG}]}
        for role, way in (("user", "input"), ("assistant", "output"))
    ]
    path = folder / f"rollout-2026-11-02T00-00-00-{CODEX.format('09')}.jsonl"
    items = [{"type": "response_item", "payload": one} for one in said]
    return written(
        path,
        *(
            {"timestamp": TIME, **one}
            for one in ({"type": "session_meta", "payload": meta}, *items)
        ),
    )


GEMINI_HEAD = {
    "sessionId": GEMINI[0],
    "projectHash": "ab" * 32,
    "startTime": TIME,
    "lastUpdated": TIME,
}


def gemini_messages() -> list[dict[str, Any]]:
    kinds = ("user", "gemini")
    return [{"id": f"m-{kind}", "timestamp": TIME, "type": kind, "content": LONG} for kind in kinds]


def long_chat(folder: Path) -> Path:
    return written(folder / "session-a.jsonl", GEMINI_HEAD, *gemini_messages())


def long_document(folder: Path) -> Path:
    path = folder / "session-a.json"
    path.write_text(json.dumps({**GEMINI_HEAD, "messages": gemini_messages()}, indent=1))
    return path


@pytest.mark.parametrize("make", [long_claude, long_codex, long_chat, long_document])
def test_a_list_holds_no_very_long_line(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    with peak_below(8 * MIB):
        session, is_part = summed_up(path, Files(), tmp_path)
    assert is_part
    assert session.has_assistant
    if make in {long_claude, long_document}:
        # Elsewhere short lines come first, and a list reads no further than these.
        assert (session.first_message or "").startswith("\U0001f600words words")
    assert session.problem_count == 0


@pytest.mark.parametrize("size", [LIST_LINE_BYTES - 1000, 8 * MIB])
def test_a_line_of_many_small_values_costs_a_list_a_bounded_memory(
    size: int, tmp_path: Path
) -> None:
    first = claude_line(UUID.format(0), None, "hi " + "x" * AGENT_LIST_BYTES_MAX)
    line = claude_line(UUID.format(1), UUID.format(0), "@")
    path = tmp_path / f"{CLAUDE.format(9)}.jsonl"
    blocks = b"[" + b"{}," * (size // 3) + b"{}]"
    path.write_bytes(first + line.replace(b'"@"', blocks))
    with peak_below(64 * MIB):
        session, is_part = summed_up(path, Files(), tmp_path)
    assert is_part
    # The longer line counts as no record.
    assert session.problem_count == (size > LIST_LINE_BYTES)


@pytest.mark.parametrize("kind", ["native", "pi"])
async def test_a_list_holds_one_long_line_of_a_file_of_its_own_and_none_of_another(
    real_house: House, tmp_path: Path, kind: str
) -> None:
    session_id = SESSION if kind == "native" else "019f5000-0000-7000-8000-000000000077"
    content = pi_file(session_id, *["words"] * 3)
    if kind == "native":
        header = {
            "type": "session_header",
            "version": 1,
            "id": SESSION,
            "timestamp": TIME,
            "cwd": "/p",
        }
        entries = [json.loads(line) for line in content.splitlines()[1:]]
        for entry in entries:
            entry["parent_id"] = entry.pop("parentId")
        content = b"\n".join(json.dumps(one).encode() for one in (header, *entries)) + b"\n"
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        root = tmp_path / "pi"
        root.mkdir()
        if kind == "pi":
            await add_root(wire, root, "pi")
        await wire.call("session/list")
        place = root if kind == "pi" else real_house.layout.sessions
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"2026-01-01T00-00-00-000000_{session_id}.jsonl"
        path.write_bytes(content.replace(b"words", LONG.encode()))
        with peak_below(16 * MIB + (len(LONG.encode()) if kind == "native" else 0)):
            listed = await wire.call("session/list")
        assert [one["id"] for one in listed["sessions"]] == [session_id]


WORDS = "words " * (16 * MIB // 6)


@pytest.fixture
def with_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the long files have a text of 16 MB that is ASCII."""
    monkeypatch.setattr(sys.modules[__name__], "LONG", WORDS)


@pytest.mark.usefixtures("with_words")
@pytest.mark.parametrize("make", [long_claude, long_codex, long_chat])
def test_an_opening_holds_little_more_than_its_longest_line(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path, files = make(tmp_path), AgentFiles(Files(), tmp_path)
    found = files.recognise(path)
    assert found is not None
    with peak_below(len(WORDS) + 64 * MIB):
        log, indexer = files.open(found, found.header.id)
    log.close()
    assert indexer.session.has_assistant


@pytest.mark.parametrize("make", [long_claude, long_codex, long_chat])
def test_a_search_holds_of_a_long_line_what_it_indexes(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path, files = make(tmp_path), AgentFiles(Files(), tmp_path)
    sizes: list[int] = []
    with files.hold(path) as held:
        found = files.recognise(path, held)
        assert found is not None
        searched = files.searched(found, held)
    with peak_below(24 * MIB):
        for line, _ in searched:
            sizes += [len(one.text) for one in found.dialect.texts(line)]
    assert SEARCH_TEXT_CHARS_MAX in sizes


# -- blank lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("blank", [b"\n", b" \r\n"])
def test_a_blank_line_costs_a_list_a_few_calls(blank: bytes, tmp_path: Path) -> None:
    count = 20_000
    path = tmp_path / f"{CLAUDE.format(9)}.jsonl"
    path.write_bytes(talk(0, 1, 10) + blank * count + talk(1, 1, 10))
    calls = 0

    def called(*_: Any) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(called)
    try:
        session, is_part = summed_up(path, Files(), tmp_path)
    finally:
        sys.setprofile(None)
    assert not is_part
    assert (session.seq, session.skipped, session.problem_count) == (count + 2, count, 0)
    # Events of calls and of their ends.
    assert calls < 40 * count


async def test_a_scan_hands_over_each_file_once(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: Counter[str] = Counter()
    submit = ThreadPool.submit

    def counted(pool: ThreadPool, work: Any, done: Any, first: Any = None, place: str = "") -> None:
        handed[place] += 1
        submit(pool, work, done, first, place)

    monkeypatch.setattr(ThreadPool, "submit", counted)
    root = tmp_path.resolve() / "claude" / "projects"
    (root / "-p").mkdir(parents=True)
    for number in range(10):
        path = root / "-p" / f"{CLAUDE.format(number)}.jsonl"
        path.write_bytes(claude_line(UUID.format(number), None, "hi"))
        os.utime(path, (1, 1))
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root)
        assert len((await wire.call("session/list"))["sessions"]) == 10
    assert 10 <= handed[str(root)] < 60
