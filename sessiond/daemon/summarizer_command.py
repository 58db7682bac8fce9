"""Configured command that writes summaries.

Law: no shell is involved. The prompt goes to the command's stdin and the summary comes from its
stdout, both UTF-8; its environment names the purpose of the summary. Its stderr is discarded, because it may quote the conversation. The command has
a process group of its own, which is killed as a whole if the command takes too long, writes too
much or is not needed any more.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from subprocess import DEVNULL, PIPE
from typing import Final

import anyio
from anyio.abc import Process

from sessiond.config.configuration import Summarizer
from sessiond.limits import SUMMARIZER_PROCESSES_MAX, SUMMARY_BYTES_MAX
from sessiond.model.requests import Purpose
from sessiond.service.ports import NoSummary

PURPOSE_VARIABLE: Final = "SESSIOND_PURPOSE"
"""Variable in the command's environment that tells what the summary is for."""


class SummarizerCommand:
    """Runner of the configured command, a few at a time; `settings` returns the current configuration."""

    def __init__(self, settings: Callable[[], Summarizer]) -> None:
        self._settings = settings
        self._turns: anyio.Semaphore | None = None

    @property
    def is_there(self) -> bool:
        """True if a command is configured."""
        return bool(self._settings().command)

    async def summarize(self, prompt: str, purpose: Purpose) -> str:
        """Return the command's summary. Raise NoSummary."""
        if self._turns is None:
            self._turns = anyio.Semaphore(SUMMARIZER_PROCESSES_MAX)
        async with self._turns:
            settings = self._settings()
            try:
                with anyio.fail_after(settings.timeout_seconds):
                    told = prompt.encode(errors="replace")
                    said, status = await _run(settings.command, told, purpose)
            except TimeoutError:
                raise NoSummary("timeout") from None
        if len(said) > SUMMARY_BYTES_MAX:
            raise NoSummary("too_large")
        if status:
            raise NoSummary(f"signal {-status}" if status < 0 else f"exit status {status}")
        try:
            return said.decode().strip()
        except UnicodeDecodeError:
            raise NoSummary("not_utf8") from None


async def _run(command: Sequence[str], prompt: bytes, purpose: Purpose) -> tuple[bytes, int]:
    """Return the command's output, cut above the limit, and its exit status. Raise NoSummary."""
    try:
        process = await _started(command, purpose)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NoSummary(f"not started: {reason}") from None
    said = b""
    status: int | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_feed, process, prompt)
            said = await _gather(process)
            # The command may have written its whole output without reading the whole prompt.
            tasks.cancel_scope.cancel()
        if len(said) <= SUMMARY_BYTES_MAX:
            status = await process.wait()
        return said, status or 0
    finally:
        if status is None:
            # The program itself may have ended while a child of it keeps the output open.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()


async def _started(command: Sequence[str], purpose: Purpose) -> Process:
    """Start the command. Raises OSError, ValueError.

    A cancelled start would end the program alone, not what the program has started by then.
    """
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={**os.environ, PURPOSE_VARIABLE: purpose},
            start_new_session=True,
        )
    raise AssertionError("a shielded start is not cancelled")


async def _feed(process: Process, prompt: bytes) -> None:
    assert process.stdin is not None, "it is a pipe"
    # A command that closes its stdin has read enough.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await process.stdin.send(prompt)
    await process.stdin.aclose()


async def _gather(process: Process) -> bytes:
    """Return the output; of an output over the limit, a little more than the limit."""
    assert process.stdout is not None, "it is a pipe"
    said = bytearray()
    with suppress(anyio.EndOfStream):
        while len(said) <= SUMMARY_BYTES_MAX:
            said += await process.stdout.receive()
    return bytes(said)
