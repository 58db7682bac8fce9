"""Lines that may be the first line of a file of a dialect: a quick look tells what the dialects tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiond.dialects import recognise, sniff
from sessiond.dialects.base import BadHeader

TESTS = Path(__file__).parent.parent
FILES = sorted([*(TESTS / "samples").rglob("*.jsonl"), *(TESTS / "other_agents").rglob("*.jsonl")])


def told(line: bytes) -> str | None:
    try:
        return recognise(line)[0].name
    except BadHeader:
        return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_quick_look_at_a_line_tells_what_the_dialects_tell(path: Path) -> None:
    for line in path.read_bytes().splitlines()[:20]:
        for spelled in (
            line,
            line.replace(b'"session', b'"\\u0073ession'),
            line.replace(b":", b" : "),
        ):
            found = sniff(spelled)
            assert (found.name if found else None) == told(spelled)


def test_the_samples_have_headers_of_every_dialect() -> None:
    names = {told(path.read_bytes().split(b"\n")[0]) for path in FILES}
    assert names >= {"native", "pi", "operator", "piglet", "sharur", None}
