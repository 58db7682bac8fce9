"""The session files that are mutated: the samples of each dialect, and a file with everything.

Law: pure but for reading the samples, once.
"""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, Final

from sessiond.dialects import DIALECTS

__all__ = ["HEADERS", "TIME", "samples"]

_SAMPLES: Final = Path(__file__).parent.parent / "samples"
TIME: Final = b'"timestamp":"2026-01-15T10:30:00.000Z"'
HEADERS: Final = (
    b'{"type":"session_header","version":1,"id":"%b",' + TIME + b',"cwd":"/p"}',
    b'{"type":"session","version":3,"id":"%b",' + TIME + b',"cwd":"/p"}',
)


@cache
def samples(*dialects: str) -> tuple[bytes, ...]:
    """Return the files that are mutated, of each dialect, or of some."""
    names = dialects or [one.name for one in DIALECTS]
    paths = [path for name in names for path in _SAMPLES.glob(f"{name}/*.jsonl")]
    return (*(path.read_bytes() for path in sorted(paths)), _many(40))


def _many(count: int) -> bytes:
    """Return a native file with atoms, heads, labels and leaves."""
    dice = random.Random(count)
    lines = [HEADERS[0] % b"session-many"]
    for number in range(1, count):
        below = f"n{dice.randrange(1, number)}" if number > 1 else None
        entry: dict[str, Any] = {"type": "message", "id": f"n{number}", "parent_id": below}
        entry["timestamp"] = "2026-01-15T10:30:00.000Z"
        kind = dice.choice(["message", "message", "label", "leaf", "atom", "head"])
        role = dice.choice(["user", "assistant"])
        entry["message"] = {"role": role, "content": f"word{number}"}
        if kind == "label":
            entry = {**entry, "type": "label", "target_id": below, "label": "here"}
        elif kind == "leaf":
            entry = {**entry, "type": "leaf", "target_id": below, "reason": "branch"}
        elif kind == "head":
            entry["head"] = "agents/second"
        elif kind == "atom":
            entry["atom"] = [1, 1]
        lines.append(json.dumps(entry).encode())
    return b"\n".join(lines) + b"\n"
