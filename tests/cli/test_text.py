"""Output for people: no text can control a terminal, a page or the order in which a line is read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.cli.ui.text import one_line
from sessiond.dialects.preview import cut
from sessiond.service.exporting.documents.visible import visible
from sessiond.visible import ACTING, spelled_out

BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"


@given(st.text())
def test_no_control_character_is_left_but_tab_and_line_feed(text: str) -> None:
    for character in spelled_out(text):
        if character not in "\t\n":
            assert unicodedata.category(character) not in {"Cc", "Zl", "Zp"}
            assert character not in BIDI


@given(st.text())
def test_a_json_document_stays_the_same_document(text: str) -> None:
    document = json.dumps([text], ensure_ascii=False)
    assert json.loads(spelled_out(document)) == [text]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\u001b[2Jgone"),
        ("a\rb", r"a\u000db"),
        ("\x9b31m", r"\u009b31m"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("\ufeffseen", r"\ufeffseen"),
        ("half \ud83d", r"half \ud83d"),
        ("grün 日本 🙂", "grün 日本 🙂"),
    ],
)
def test_control_characters_are_spelled_out(text: str, shown: str) -> None:
    assert spelled_out(text) == shown


@pytest.mark.parametrize("shown", [spelled_out, visible, cut, one_line])
def test_no_character_that_acts_is_shown_anywhere(shown: Callable[[str], str]) -> None:
    acting = [chr(code) for code in range(0x10000) if re.match(f"[{ACTING}]", chr(code))]
    assert len(acting) > 2100
    for character in acting:
        assert character not in shown(f"before{character}behind")


def test_one_line_is_one_line_of_the_width() -> None:
    assert one_line(" a\n\tb  c ") == "a b c"
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("abcd", 4) == "abcd"


def test_a_character_that_the_locale_lacks_is_spelled_and_ends_no_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from sessiond.cli import main; main()", "config"],
        env={"HOME": str(tmp_path / "gr\u00fc\u00dfe \u65e5"), "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "gr\u00fc\u00dfe ".encode("latin-1") + b"\\u65e5/.config" in done.stdout
