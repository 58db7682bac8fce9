"""The memory of a reading: a few numbers for each line, for sessions have hundreds of thousands of lines."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from uuid import UUID

import pytest

from sessiond.dialects.agents.claude_code import ClaudeCodeReading
from sessiond.dialects.agents.source_line import source_line

pytestmark = [pytest.mark.slow, pytest.mark.search]

LINES = 6000


def lines(start: int) -> Iterator[bytes]:
    """Yield prompts, answers of two lines, and results, each below the line before."""
    for number in range(start, start + LINES):
        uuid, above = (
            str(UUID(int=n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128))
            for n in (number, number - 1)
        )
        said: dict[str, object] = {"role": "user", "content": "please"}
        kind = "user"
        if number % 4 in {1, 2}:
            kind = "assistant"
            usage = {"input_tokens": 5, "output_tokens": 1000 + number % 4}
            block = {"type": "text", "text": "yes"} if number % 4 == 1 else {
                "type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {}}  # fmt: skip
            said = {"role": "assistant", "id": f"msg_{number // 4:020}", "model": "claude-opus-5",
                    "content": [block], "usage": usage}  # fmt: skip
        elif number % 4 == 3:
            said["content"] = [
                {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": "done"}
            ]
        yield json.dumps(
            {"type": kind, "uuid": uuid, "parentUuid": above if number > start else None,
             "sessionId": "s", "timestamp": f"2026-11-02T00:{number // 60 % 60:02}:{number % 60:02}.000Z",
             "message": said}
        ).encode()  # fmt: skip


def test_a_reading_of_claude_code_keeps_less_than_220_bytes_a_line() -> None:
    reading = ClaudeCodeReading()
    for number, line in enumerate(lines(4), 1):
        reading.take(source_line(number, line))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number, line in enumerate(lines(4 + LINES), LINES + 1):
            reading.take(source_line(number, line))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert used / LINES < 220
