"""The cost of a list over large files of other agents, and what a list must find in spite of that."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects.agents.source_line import SourceLine
from sessiond.dialects.agents.source_line import source_line as read_line
from sessiond.journal.disk.files import Files
from sessiond.limits import AGENT_LIST_BYTES_MAX, AGENT_LIST_STEP_BYTES
from sessiond.service.files.in_place import AgentFiles
from sessiond.session.index import Session
from tests.kit.agent_roots import CLAUDE, claude_line, codex_root

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
    found = files.recognise(path)
    assert found is not None
    log, indexer, is_part = files.summary(found, found.header.id)
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
    assert disk.calls["open"] <= 4
    assert disk.calls["pread"] <= 12
    assert disk.read_bytes <= 2 * AGENT_LIST_BYTES_MAX


def test_a_list_reads_on_to_the_first_words_of_the_user(tmp_path: Path) -> None:
    hooks = fact("attachment", attachment={"content": "y" * 3000}) * 10
    path = large(tmp_path, hooks + talk(1, 100, 1000), talk(101, 100, 1000))
    assert len(hooks) > AGENT_LIST_STEP_BYTES
    session, _ = summed_up(path, Files(), tmp_path)
    assert (session.first_message or "").startswith("turn 1 ")


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
