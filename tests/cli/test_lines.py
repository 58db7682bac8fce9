"""Every file can be dumped, and no byte of it is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.cli.offline.lines import Line, lines_of
from tests.kit.limits import set_limits

HEADER = b'{"type":"session_header","version":1,"id":"my-session","timestamp":"2026-01-01T00:00:00Z","cwd":"/p"}\n'
ENTRY = b'{"type":"message","id":"e1","parent_id":null,"timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"secret"}}\n'
PI_HEADER = b'{"type":"session","version":3,"id":"0197c1d2","timestamp":"2026-01-01T09:00:00.000Z","cwd":"/old"}\n'
PI_ENTRY = b'{"type":"message","id":"a1b2c3d4","parentId":null,"timestamp":"2026-01-01T09:00:01.000Z","message":{"role":"user","content":"secret"}}\n'
BAD = b'{"type":"message","id":"e2"\n'


def dumped(folder: Path, *lines: bytes, with_preview: bool = False) -> list[Line]:
    path = folder / "file.jsonl"
    path.write_bytes(b"".join(lines))
    return list(lines_of(path, with_preview=with_preview))


@pytest.mark.parametrize(("header", "entry"), [(HEADER, ENTRY), (PI_HEADER, PI_ENTRY)])
def test_a_good_file(tmp_path: Path, header: bytes, entry: bytes) -> None:
    first, second = dumped(tmp_path, header, entry)
    assert (first.line, first.offset, first.size, first.type) == (
        1,
        0,
        len(header),
        "session_header",
    )
    assert (second.line, second.offset, second.size) == (2, len(header), len(entry))
    assert (second.type, second.parent_id, second.problem) == ("message", None, None)
    assert second.id in {"e1", "a1b2c3d4"}


def test_what_a_message_says_is_shown_only_when_asked_for(tmp_path: Path) -> None:
    assert "secret" not in repr(dumped(tmp_path, HEADER, ENTRY, BAD))
    assert dumped(tmp_path, HEADER, ENTRY, with_preview=True)[1].preview == "secret"


def test_bad_lines_keep_their_place_and_say_what_is_wrong(tmp_path: Path) -> None:
    lines = dumped(tmp_path, HEADER, BAD, b"\n", b"\xff\xfe\n", ENTRY, b"\r\n", ENTRY[:40])
    assert [line.line for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert [line.id for line in lines] == ["my-session", None, None, None, "e1", None, None]
    assert [line.problem is None for line in lines] == [
        True,
        False,
        False,
        False,
        True,
        False,
        False,
    ]
    assert lines[2].problem == lines[5].problem == "is blank"
    assert str(lines[6].problem).endswith("has no newline at its end: torn, or being written")


def test_a_file_without_a_header_shows_what_its_lines_are(tmp_path: Path) -> None:
    first, second = dumped(tmp_path, ENTRY, PI_ENTRY)
    assert first.problem == "is no session header of a known format"
    assert first.id == "e1"
    assert second.id == "a1b2c3d4"
    assert second.problem is None


def test_a_type_that_is_no_text_everywhere_is_shown_where_it_is_one(tmp_path: Path) -> None:
    """A line that is not UTF-8 has no type. Half a surrogate pair is JSON: its line is an entry."""
    half = ENTRY.replace(b"secret", rb"\ud83d")
    _, bad, good = dumped(tmp_path, HEADER, b'{"type":"zz\xff","id":"e9"}\n', half)
    assert (bad.type, bad.id, bad.problem) == (None, "e9", "is not UTF-8")
    assert (good.type, good.id, good.problem) == ("message", "e1", None)


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    assert dumped(tmp_path) == []


@given(st.lists(st.sampled_from([HEADER, ENTRY, BAD, b"\n", b"[]\n", b"{}\n", b"x"]) | st.binary()))
def test_the_lines_cover_every_byte_once(pieces: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        lines = dumped(Path(folder), *pieces)
    at = 0
    for number, line in enumerate(lines, start=1):
        assert (line.line, line.offset) == (number, at)
        at += line.size
    assert at == len(b"".join(pieces))


def test_a_line_that_is_too_long_keeps_its_place_and_says_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A line in one chunk of a file is never too long.
    set_limits(monkeypatch, LINE_BYTES_MAX=len(ENTRY), _CHUNK_BYTES=16)
    lines = dumped(tmp_path, HEADER, ENTRY.replace(b"secret", b"secret" * 9), ENTRY)
    assert [line.id for line in lines] == ["my-session", None, "e1"]
    assert lines[2].offset == len(HEADER) + len(ENTRY) + 8 * len("secret")
    assert f"is {lines[1].size - 1} bytes long" in str(lines[1].problem)
