"""The end of a summarizer command that is cancelled while it starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from sessiond.config.configuration import Summarizer
from sessiond.daemon.summarizer_command import SummarizerCommand

pytestmark = pytest.mark.both_loops


# The other backend opens devnull on the loop, which tests forbid.
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_start_that_is_cancelled_leaves_no_child_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anyio_backend: str
) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    command = ("sh", "-c", f"exec >>{begun}; echo begun; sleep 60")
    open_process = anyio.open_process
    scope = anyio.CancelScope()

    async def cancelled_start(*given: Any, **named: Any) -> Any:
        process = await open_process(*given, **named)
        # The command runs, and its start is not over.
        pipe = await to_thread.run_sync(begun.open)
        assert await to_thread.run_sync(pipe.readline) == "begun\n"
        pipes.append(pipe)
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        return process

    pipes: list[Any] = []
    monkeypatch.setattr(anyio, "open_process", cancelled_start)
    with scope:
        await SummarizerCommand(lambda: Summarizer(command)).summarize(json.dumps("hi"), "merge")
    assert scope.cancelled_caught
    # The end of the pipe is the end of all processes that have it.
    with anyio.fail_after(10):
        assert await to_thread.run_sync(pipes[0].read, abandon_on_cancel=True) == ""
    pipes[0].close()
