"""The plainest client: one request at a time, over a socket, without trust in the daemon.

Law: the judge's strict reader reads every message, and every refusal is compared with the table of
errors. So callers check only the meaning of an answer.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.account import error_faults
from tests.fuzz.judge import strict
from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS

__all__ = ["Answer", "Plain"]


def _integer(text: str) -> int | str:
    """Return the number; a number too long for Python (CVE-2020-10735) stays a text."""
    return int(text) if len(text) < sys.int_info.default_max_str_digits else text


class Answer:
    """The answer to a request: a result or an error."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.result: Any = message.get("result")
        self.error: dict[str, Any] | None = message.get("error")

    @property
    def kind(self) -> str | None:
        """The kind of a refusal, None for a result."""
        return None if self.error is None else str(self.error["data"]["kind"])

    def __repr__(self) -> str:
        return ascii(self.error if self.error is not None else self.result)[:600]


class Plain(Link):
    """A connection. What is wrong with the answers themselves is kept in `faults`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._asked = 0
        self.told: list[dict[str, Any]] = []
        self.faults: list[str] = []

    def call_with(self, method: str, params: Any) -> Answer:
        """Return the answer to a request; notifications before the answer go to `told`."""
        self._asked += 1
        body = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self.send(json.dumps(body).encode() + b"\n")
        while True:
            line = self.line()
            assert line is not None, f"the connection ended at {method}"
            strict(line)
            message = json.loads(line, parse_int=_integer)
            if "method" not in message:
                break
            self.told.append(message)
        if message["id"] != self._asked:
            self.faults.append(f"{method} was answered under the id {message['id']!r}")
        answer = Answer(message)
        if answer.error is not None:
            found = error_faults(answer.error)
            self.faults.extend(f"{method}: {fault}: {answer!r}" for fault in found)
        return answer

    def call(self, method: str, **params: Any) -> Answer:
        """Return the answer to a request with named parameters."""
        return self.call_with(method, params)
