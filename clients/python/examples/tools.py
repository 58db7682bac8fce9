"""The one tool of the example agent: a command of the shell, bounded in time and output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from typing import Any

import anyio

from model import Call

__all__ = ["TOOLS", "run_tool"]

OUTPUT_BYTES = 64 * 1024

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "run",
            "description": "Run a shell command.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}},
                "required": ["command"],
            },
        },
    }
]


async def run_tool(call: Call, seconds: float) -> dict[str, Any]:
    """Run a tool that the model called; return the message with its result."""
    command = call.decoded().get("command")
    if call.name != "run" or not isinstance(command, str):
        text, failed = "There is one tool, run, with a text as its command.", True
    else:
        text, failed = await run(command, seconds)
    return {
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [{"type": "text", "text": text}],
        "isError": failed,
    }


async def run(command: str, seconds: float) -> tuple[str, bool]:
    """Return the output of a shell command, and whether the command failed."""
    output = b""
    # A start that is cut off would leave what the command has started already.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    async with process:
        assert process.stdout is not None
        try:
            with anyio.move_on_after(seconds) as time:
                async for part in process.stdout:
                    output += part
                    if len(output) > OUTPUT_BYTES:
                        break
                else:
                    await process.wait()
        finally:
            # The whole group: a command may have started more, and may be writing still.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    text = output[:OUTPUT_BYTES].decode(errors="replace")
    if time.cancelled_caught:
        return f"{text}\n(ended after {seconds:g} seconds)", True
    if len(output) > OUTPUT_BYTES:
        return f"{text}\n(cut after {OUTPUT_BYTES} bytes)", True
    return text, process.returncode != 0
