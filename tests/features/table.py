"""The features of the replaced systems: what carries each here, and the tests that show it.

`rows.tsv` has a line for each feature, with tabs between number, feature, methods and tests; a line
that begins with `#` begins a section. `deviations.tsv` has a line for each promise of such a system that sessiond keeps in
another way, with the reason. docs/features.md is made of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from sessiond.model.events import NOTIFICATIONS

__all__ = ["PAGE", "TESTS", "Deviation", "Feature", "deviations", "features", "names_in", "page"]

TESTS: Final = Path(__file__).parents[1]
ROWS: Final = Path(__file__).with_name("rows.tsv")
DEVIATIONS: Final = Path(__file__).with_name("deviations.tsv")
PAGE: Final = TESTS.parent / "docs" / "features.md"

_HEAD: Final = """\
# Features

sessiond takes over every feature of five session systems and of the ancestor that they share. Each row names the
methods and notifications that carry the feature, and tests that fail without it. A row that names none is not built yet.
The last table names what sessiond does in another way, and why.
The page is made of `tests/features/rows.tsv` and `tests/features/deviations.tsv`."""


class Feature(NamedTuple):
    """One row: `carriers` are names of the protocol, `tests` are files below tests/ and functions."""

    section: str
    number: str
    text: str
    carriers: list[str]
    tests: list[str]


class Deviation(NamedTuple):
    """A promise or a habit of a program that sessiond keeps in another way; `numbers` are those of its rows."""

    numbers: str
    program: str
    there: str
    here: str
    why: str


def deviations() -> list[Deviation]:
    """Return the deviations in the order of the rows."""
    lines = DEVIATIONS.read_text().splitlines()[1:]
    return [Deviation(*line.split("\t")) for line in lines]


def features() -> Iterator[Feature]:
    """Yield the rows in their order."""
    section = ""
    # The first line names the columns.
    for line in ROWS.read_text().splitlines()[1:]:
        if line.startswith("#"):
            section = line.removeprefix("#").strip()
            continue
        number, text, carriers, tests = line.split("\t")
        yield Feature(section, number, text, _parts(carriers), _parts(tests))


def _parts(text: str) -> list[str]:
    return text.split(", ") if text else []


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file; an empty set for a file that is not there."""
    path = TESTS / file
    text = path.read_text() if path.is_file() else ""
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))


def page() -> str:
    """Return the page: a table for each section, then the targets of all links."""
    lines = [_HEAD]
    targets: dict[str, str] = {}
    section = ""
    for row in features():
        if row.section != section:
            section = row.section
            lines += [
                "",
                f"## {section}",
                "",
                "| # | feature | carried by | shown by |",
                "|---|---|---|---|",
            ]
        targets |= {name: f"../protocol.md#{_anchor(name)}" for name in row.carriers}
        targets |= {_file(test): f"../tests/{_file(test)}" for test in row.tests}
        carriers = ", ".join(f"[{name}]" for name in row.carriers)
        tests = ", ".join(f"[{_words(test)}][{_file(test)}]" for test in row.tests)
        lines.append(f"| {row.number} | {row.text} | {carriers or '-'} | {tests or '-'} |")
    lines += [
        "",
        "## What sessiond does in another way",
        "",
        "| # | program | there | here | why |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(one)} |" for one in deviations()),
    ]
    lines += ["", *(f"[{name}]: {target}" for name, target in sorted(targets.items()))]
    return "\n".join(lines) + "\n"


def _file(test: str) -> str:
    return test.partition("::")[0]


def _words(test: str) -> str:
    """Return the name of a test as words."""
    return test.partition("::")[2].removeprefix("test_").replace("_", " ")


def _anchor(name: str) -> str:
    """Return the anchor of the section of protocol.md that describes a name."""
    if name in NOTIFICATIONS and name != "$/progress":
        return "notifications"
    return "messages" if name == "$/cancelRequest" else re.sub(r"[^\w\- ]", "", name.lower())
