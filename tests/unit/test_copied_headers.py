"""First lines of all versions, and what a copy of the current version has in their place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from sessiond.dialects import recognise, sniff
from sessiond.dialects.base import current_lines
from tests.kit.sessions import SESSION

SAMPLES = Path(__file__).parents[1] / "samples"
VERSIONS = (None, 1, 2, 3)


def headers() -> Iterator[bytes]:
    """Yield the first lines of the samples, in each version, and each of them without one of its members."""
    for path in sorted(SAMPLES.rglob("*.jsonl")):
        with path.open("rb") as file:
            first = file.readline().strip()
        if not first.startswith(b"{") or sniff(first) is None:
            continue
        members = msgspec.json.decode(first)
        for version in VERSIONS:
            stated = {} if version is None else {"version": version}
            whole = {name: value for name, value in members.items() if name != "version"} | stated
            for left_out in ("", *whole):
                yield msgspec.json.encode({n: v for n, v in whole.items() if n != left_out})


@pytest.mark.parametrize("cwd", [None, "/elsewhere"])
def test_the_copy_of_each_header_is_one(cwd: str | None) -> None:
    tried = 0
    for header in {line for line in headers() if sniff(line) is not None}:
        dialect, found = recognise(header)
        copied = dialect.copied_header(next(current_lines(dialect, [header])), SESSION, cwd)
        again = dialect.decode_header(copied)
        assert (again.id, again.cwd) == (SESSION, found.cwd if cwd is None else cwd), header
        tried += 1
    assert tried > 100
