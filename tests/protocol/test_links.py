"""Every link from one page of the repository to another leads to a file, and to a heading in it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDERS = ("", "docs", "clients/*", "tests/conformance")
PAGES = sorted(page for folder in FOLDERS for page in REPOSITORY.glob(f"{folder}/*.md".lstrip("/")))
# Pages outside docs that a newcomer finds by no link are lost.
ENTRANCE = REPOSITORY / "README.md"


@cache
def prose(page: Path) -> str:
    """Return the text of a page without code blocks and inline code."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`(?!\])", "", text)


def links(page: Path) -> list[str]:
    """Return the targets of a page's links, without links to other hosts."""
    found = re.findall(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", prose(page), re.MULTILINE)
    return [link for pair in found for link in pair if link and "://" not in link]


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as renderers of Markdown make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(REPOSITORY), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_found_from_the_readme() -> None:
    seen = {ENTRANCE}
    new = [ENTRANCE]
    while new:
        page = new.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target not in seen:
                seen.add(target)
                new.append(target)
    assert [str(page) for page in PAGES if page not in seen] == []
