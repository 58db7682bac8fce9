"""Files of Claude Code that do not begin with what a user says: they are listed with the first prompt, or are no session."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiond.dialects import agents
from sessiond.dialects.agents import FirstLines, agent_of_lines
from sessiond.dialects.agents.source_line import SourceLine, source_line
from sessiond.dialects.lenient_json import lenient
from sessiond.dialects.preview import entry_preview
from sessiond.limits import AGENT_LIST_BYTES_MAX, AGENT_LIST_PREAMBLE_BYTES
from tests.kit.agent_roots import CLAUDE
from tests.kit.agents import claude_line, context_of, write_lines
from tests.kit.house import House
from tests.kit.limits import set_limits
from tests.kit.roots import add_root

NAME = CLAUDE.format(1)
PROMPT = "mend the cart"
SAID = [f"user: {PROMPT}", "assistant: mended"]
TALK = [claude_line(1, None, PROMPT), claude_line(2, 1, "mended", "assistant")]
SNAPSHOT = {"type": "file-history-snapshot", "messageId": "m-1", "snapshot": {"a": "x" * 200}}
QUEUED = {"type": "queue-operation", "operation": "enqueue", "sessionId": NAME, "content": "x"}
PULL = {"type": "pr-link", "prNumber": 1, "prUrl": "https://example.org/1", "sessionId": NAME}
SUMMARY = {"type": "summary", "summary": "Talk", "leafUuid": "elsewhere"}
OPENED = "<ide_opened_file>The user opened a.py</ide_opened_file>"
INTERRUPTED = "[Request interrupted by user for tool use]"


async def row_of(
    house: House, home: Path, lines: Sequence[Any]
) -> tuple[str, str, list[str]] | None:
    """Return the first prompt, the folder and the context of a file with these lines; None if no list has it."""
    root = home.resolve() / "claude" / "projects"
    write_lines(root / f"-p/{NAME}.jsonl", lines)
    async with house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "claude-code")
        found = await wire.call("session/list")
        assert found.get("unreadable", []) == []
        for row in found["sessions"]:
            return row["first_message"], row["cwd"], await context_of(wire, NAME)
    return None


@pytest.mark.parametrize(
    "before",
    [
        pytest.param([SNAPSHOT, QUEUED] * 30, id="sixty lines"),
        pytest.param(
            [SNAPSHOT] * (3 * AGENT_LIST_BYTES_MAX // 200), id="more bytes than a list reads"
        ),
        pytest.param([PULL], id="a link"),
        pytest.param([SUMMARY] * 60, id="summaries of other files"),
    ],
)
async def test_a_file_that_begins_with_bookkeeping_is_listed_with_its_first_prompt(
    real_house: House, tmp_path: Path, before: list[Any]
) -> None:
    assert await row_of(real_house, tmp_path, [*before, *TALK]) == (
        PROMPT,
        "/p",
        SAID,
    )


@pytest.mark.parametrize("line", [SNAPSHOT, QUEUED, PULL, SUMMARY])
def test_lines_behind_bookkeeping_tell_the_agent(line: Any, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "file.jsonl", [*[line] * 200, TALK[0]])
    lines = path.read_bytes().splitlines()
    agent = agent_of_lines(lines)
    assert agent is not None
    assert agent.name == "claude-code"
    assert agent_of_lines(lines[:-1]) is None
    assert agent_of_lines([b"{}"] * 200 + lines[-1:]) is None


@pytest.mark.parametrize("size", [1, 3, 7, 70])
@pytest.mark.parametrize("line", [SNAPSHOT, QUEUED, PULL, SUMMARY])
def test_each_line_before_those_that_tell_the_agent_is_decoded_once(
    line: Any, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_lines(tmp_path / "file.jsonl", [*[line] * 200, TALK[0]]).read_bytes().splitlines()
    decoded = list[bytes]()

    def counted(number: int, one: bytes) -> SourceLine:
        decoded.append(one)
        return source_line(number, one)

    monkeypatch.setattr(agents, "source_line", counted)
    told = FirstLines()
    found = [told.take(lines[at : at + size]) for at in range(0, len(lines), size)]
    assert [one.name if one else None for one in found] == [None] * (len(found) - 1) + ["claude-code"]  # fmt: skip
    assert decoded == lines


@pytest.mark.parametrize("none", [b"{}", b"7", b"{"])
def test_many_lines_that_tell_nothing_are_no_agents(none: bytes) -> None:
    told = FirstLines()
    for _ in range(60):
        assert told.take([none]) is None
    assert told.is_over


@pytest.mark.parametrize("lines", [[SUMMARY], [SNAPSHOT, QUEUED, PULL]])
async def test_a_file_in_which_nothing_is_said_is_no_session(
    real_house: House, tmp_path: Path, lines: list[Any]
) -> None:
    assert await row_of(real_house, tmp_path, lines) is None


async def test_a_list_reads_no_more_than_a_bounded_beginning_of_a_file_that_says_nothing(
    real_house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No figures of the whole file are read in the background.
    set_limits(monkeypatch, FIGURES_BYTES_MAX=AGENT_LIST_BYTES_MAX)
    read, pread = [0], real_house.files.pread

    def counted(fd: int, count: int, offset: int) -> bytes:
        data = pread(fd, count, offset)
        read[0] += len(data)
        return data

    monkeypatch.setattr(real_house.files, "pread", counted)
    lines = [SNAPSHOT] * (6 * AGENT_LIST_PREAMBLE_BYTES // 200)
    root = tmp_path.resolve() / "claude" / "projects"
    write_lines(root / f"-p/{NAME}.jsonl", [*lines, *TALK])
    async with real_house.daemon() as daemon, daemon.connect() as wire:
        await add_root(wire, root, "claude-code")
        await wire.call("session/list", whole=False)
        await wire.call("session/list")
    assert AGENT_LIST_PREAMBLE_BYTES <= read[0] < 2 * AGENT_LIST_PREAMBLE_BYTES


@pytest.mark.parametrize(
    "said",
    [
        f"{OPENED}\n{PROMPT}",
        f"{OPENED}<system-reminder>\nbe\nterse</system-reminder>\n{PROMPT}",
        f"<ide_selection>{'x' * 5000}</ide_selection> {PROMPT}",
        [
            {"type": "text", "text": OPENED},
            {"type": "image", "source": {}},
            {"type": "text", "text": PROMPT},
        ],
    ],
)
def test_first_words_are_the_users_and_not_the_editors(said: Any, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "line", [{"type": "message", "message": {"role": "user", "content": said}}]
    )
    assert entry_preview(lenient(path.read_bytes())) == PROMPT


@pytest.mark.parametrize(
    "said", [OPENED, "<ide_opened_file>half", [{"type": "text", "text": OPENED}]]
)
def test_words_of_an_editor_alone_are_shown(said: Any, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "line", [{"type": "message", "message": {"role": "user", "content": said}}]
    )
    assert entry_preview(lenient(path.read_bytes())).startswith("<ide_opened_file>")


async def test_an_interruption_is_no_prompt(real_house: House, tmp_path: Path) -> None:
    lines = [
        claude_line(1, None, [{"type": "text", "text": INTERRUPTED}]),
        claude_line(2, 1, PROMPT),
        claude_line(3, 2, "mended", "assistant"),
    ]
    assert await row_of(real_house, tmp_path, lines) == (
        PROMPT,
        "/p",
        [f"custom: {INTERRUPTED}", *SAID],
    )
