"""Acts of a test beside the logic of the VS Code extension, and questions to that logic."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from sessiond_client import BlockingClient
from tests.interop.test_stubs import python_client
from tests.kit.driver import Driver

__all__ = ["LOG", "SESSION", "TEXTS", "Drive", "Logic", "say", "shown", "stored", "write_many"]

SESSION: Final = "session-of-vscode"
AT_ONCE: Final = 200
# A log whose changes wake what waits.
LOG: Final = """
    s.log = new core.SessionLog(connection, feeds, session_id, changed);
    await s.log.start();
"""
# The texts of a log: what stands below each heading.
TEXTS: Final = """
    s.texts = () => s.log.snapshot().text.split('\\n').filter((line) => line !== '' && !/^(── |… )/.test(line));
"""


class Logic(Driver):
    """A Node process with the logic of one window."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process)
        self.pid = process.pid


Drive = Callable[..., Logic]


def say(environment: Mapping[str, str], *texts: str) -> None:
    with python_client(environment) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def stored(environment: Mapping[str, str]) -> list[str]:
    """Return the content of every stored message, in the order of `seq`."""
    with python_client(environment) as client:
        rows = client.entries(SESSION, limit=10_000).entries
    return [row.entry["message"]["content"] for row in rows if row.entry["type"] == "message"]


def shown(js: Driver, *, until: str) -> list[str]:
    """Return the texts of a log, once it has a text."""
    texts: list[str] = js(
        TEXTS + "return until(() => s.texts().includes(text) && s.texts())", text=until
    )
    return texts


def write_many(client: BlockingClient, count: int) -> None:
    """Append messages, as many in one call as the daemon takes."""
    for begin in range(0, count, AT_ONCE):
        texts = [f"turn {number}." for number in range(begin, min(begin + AT_ONCE, count))]
        messages = ({"role": "user", "content": text} for text in texts)
        client.append(SESSION, entries=[{"type": "message", "message": one} for one in messages])
