"""Words of the product: every docstring and every page names its subject, in plain words.

ruff's D rules hold the imperative of functions (pyproject.toml). This test holds the openers and
the words that leave a reader without a subject.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("sessiond", "clients/python/sessiond_client")

OPENER: Final = re.compile(
    r"(What|Who|Whom|Whose|Where|How|When|Why|Which|Whether|Whatever|Whoever|The same|Same"
    r"|Nothing|Nobody|Somebody|Everybody|Everything|It|They|This|That|These|Those"
    r"|Of|For|In|With|By|As|To|So|From|After|Before|If|Only|Not|On|At|Also|Until|While)\s"
)
WORD: Final = re.compile(
    r"\b(?:(?:whoever|whomever|whatever|whom|somebody|nobody|anybody|everybody|others)\b"
    r"|the same(?=[.,;:)]|$|\s(?:for|of|by|with|to|in)\b))",
    re.IGNORECASE,
)
PERSON: Final = re.compile(
    r"\b(?:who(?:m)?ever|somebody|nobody|anybody|everybody)\b", re.IGNORECASE
)
# What readers of today read: neither history, nor a table of tests' names.
PAGES: Final = [
    path
    for folder in ("", "docs/", "clients/*/", "tests/conformance/")
    for path in sorted(ROOT.glob(f"{folder}*.md"))
    if path.name not in {"CHANGELOG.md", "decisions.md", "features.md"}
]
CODE: Final = re.compile(r"`[^`]*`")
NOUNS: Final = re.compile(
    r" (?:lines|entries|sessions|messages|files|keys|namespaces|records|results|requests|events"
    r"|hits|problems|tokens|clients|daemons)\b"
)
# A count of two or more, two texts that sharur's sessions have in this form, and any JSON value.
AS_THEY_ARE: Final = (
    "len(found)} sessions",
    "count} messages from session",
    "freed} tokens.",
    "one_line(bytes(raw)",
)


def faults(text: str) -> list[tuple[int, str]]:
    """Return the line and the opener or word of each docstring that leaves its subject out.

    A text below an attribute is a docstring too.
    """
    docstrings = [
        (statement.lineno, statement.value.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ]
    found: list[tuple[int, str]] = []
    for line, said in docstrings:
        if not isinstance(said, str):
            continue
        plain = CODE.sub("`…`", said.strip())
        opener = OPENER.match(plain)
        start = 0 if opener is None else opener.end()
        found += [] if opener is None else [(line, opener[0].strip())]
        found += [(line, match[0]) for match in WORD.finditer(plain, start)]
    return found


def test_every_docstring_names_its_subject() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for top in PRODUCT
        for path in sorted((ROOT / top).rglob("*.py"))
        for line, word in faults(path.read_text("utf-8"))
    ]
    assert found == []


def bare_counts(text: str) -> Iterator[str]:
    """Yield each count that stands before a plural without `counted`, which would say "1 lines"."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, behind in pairwise(node.values):
            if not (isinstance(value, ast.FormattedValue) and isinstance(behind, ast.Constant)):
                continue
            count, noun = ast.unparse(value.value), str(behind.value)
            if NOUNS.match(noun) and not (count.isupper() or "counted(" in count):
                yield f"{count}}}{noun}"


def test_every_count_has_its_noun_in_the_right_number() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {said}"
        for path in sorted((ROOT / "sessiond").rglob("*.py"))
        for said in bare_counts(path.read_text("utf-8"))
        if not said.startswith(AS_THEY_ARE)
    ]
    assert found == []


def test_a_count_before_a_plural_is_found() -> None:
    assert list(bare_counts("f'{a + b} lines of it'")) == ["a + b} lines of it"]
    assert not list(bare_counts("f'{LINES_MAX} lines', f'{line} has', f'{one} linesman'"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_who_acts(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert PERSON.findall(CODE.sub("`…`", text)) == []


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("What a file holds.", "What"),
        ("The same for a folder.", "The same"),
        ("It was stored.", "It"),
        ("Tell whoever asked.", "whoever"),
        ("Return the lines.\n\nNobody waits for them.", "Nobody"),
    ],
)
def test_a_docstring_without_a_subject_is_found(said: str, word: str) -> None:
    for planted in (
        f'"""{said}"""\n',
        f'def work() -> None:\n    """{said}"""\n',
        f'class Work:\n    size: int\n    """{said}"""\n',
        f'async def outer() -> None:\n    def work() -> None:\n        """{said}"""\n',
    ):
        assert [found for _, found in faults(planted)] == [word], planted


@pytest.mark.parametrize(
    "said",
    [
        "Return whether the file holds a header.",
        "Client that `Nobody` stands for.",
        "Position in the log.",
        "Item of a list.",
        "Forward the frame.",
    ],
)
def test_a_docstring_with_a_subject_passes(said: str) -> None:
    assert faults(f'class Work:\n    """{said}"""\n') == []
