"""A program in Node that runs what a test tells it, a line of code at a time."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

__all__ = ["Driver", "JsError"]


class JsError(Exception):
    """An error that the code in Node threw."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error['name']}: {error['message']}")
        self.name = error["name"]
        self.message = error["message"]
        self.kind = error.get("kind")
        self.outcome_unknown = error.get("outcomeUnknown")


class Driver:
    """One Node process with one client."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, code: str, **values: object) -> Any:
        """Run code that sees the values by their names; return what the code returns. Raises JsError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
        stdin.write(json.dumps(given + code) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "the program ended"
        said = json.loads(line)
        if "error" in said:
            raise JsError(said["error"])
        return said["value"]
