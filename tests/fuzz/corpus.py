"""The requests of all transcripts and conformance cases.

Law: requests are left out that would end the daemon, close the connection in mid-stream or write
to a path. So every message that follows is owed its answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

__all__ = ["bodies"]

_TESTS: Final = Path(__file__).parent.parent
_LEFT_OUT: Final = ("server/stop", "exit", "retention/run")
_SENT: Final = re.compile(r"^[a-z]*> (.*(?:\n    .*)*)", re.MULTILINE)


@cache
def bodies() -> tuple[bytes, ...]:
    """Return all requests, each once, in the order of their bytes."""
    found = {*_of_transcripts(), *_of_cases()}
    kept = [body for body in found if not any(f'"{name}"' in body for name in _LEFT_OUT)]
    assert len(kept) > 500
    return tuple(body.encode() for body in sorted(kept) if '"session/export"' not in body)


def _of_transcripts() -> Iterator[str]:
    pages = [*(_TESTS / "protocol" / "transcripts").glob("*.txt"), _TESTS.parent / "protocol.md"]
    for page in pages:
        for sent in _SENT.finditer(page.read_text("utf-8")):
            yield re.sub(r"\n    ", "", sent[1])


def _of_cases() -> Iterator[str]:
    for case in sorted((_TESTS / "conformance" / "cases").glob("*.json")):
        yield from _of_steps(json.loads(case.read_text("utf-8"))["steps"])


def _of_steps(steps: list[dict[str, Any]]) -> Iterator[str]:
    for number, step in enumerate(steps, 1):
        match step:
            case {"do": "send", "text": str(text)}:
                yield text
            case {"do": "send", "message": message}:
                yield json.dumps(message)
            case {"do": "call" | "subscribe", **rest}:
                method = rest.get("method", "session/subscribe")
                yield json.dumps({"id": number, "method": method, "params": rest.get("params", {})})
            case {"do": "pipeline", "calls": calls}:
                yield json.dumps(
                    [{"id": f"{number}.{at}", **call} for at, call in enumerate(calls)]
                )
            case _:
                pass
