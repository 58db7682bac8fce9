"""Sessions as pages: whatever a session says stays text, and only the page's own script may run."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiond.limits import MARKDOWN_CHARS_MAX
from sessiond.service.exporting.documents.html import rendered
from sessiond.service.exporting.documents.pages import TEMPLATES
from sessiond.service.exporting.documents.visible import visible
from tests.kit.documents import HOSTILE, Page, everywhere, made, native
from tests.kit.sessions import stored_message

# Elements of the templates, and those that Markdown makes.
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "form", "input", "output"),
    *("button", "main", "dl", "div", "dt", "dd", "details", "summary", "a", "article", "span", "b"),
    *("time", "p", "pre", "code", "nav", "ol", "li", "script"),
    *("em", "strong", "s", "h2", "h3", "h4", "h5", "h6", "ul", "blockquote", "hr", "br"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "type", "id", "class", "placeholder"),
    *("aria-label", "aria-controls", "aria-expanded", "autocomplete", "spellcheck", "for", "role"),
    *("dir", "href", "title", "open", "data-above", "rel", "start"),
}
texts = (
    st.sampled_from(HOSTILE) | st.text(max_size=30) | st.text("<>\"'`&[]()!/:\\=\n-", max_size=30)
)


def check(page: Page) -> None:
    """Require that a page has only our elements and attributes, and one script and style: ours."""
    for name, attributes in page.elements:
        assert name in ELEMENTS
        assert set(attributes) <= ATTRIBUTES, attributes
        if "href" in attributes:
            assert re.match(
                "#(entry-|line-|branch-)|https?://|mailto:", attributes["href"], re.IGNORECASE
            )
    assert (len(page.all("script")), len(page.all("style"))) == (1, 1)
    assert page.comments == []
    for name, asset in (("script", "page.js"), ("style", "page.css")):
        assert page.raw[name] == (TEMPLATES / asset).read_text()


@settings(max_examples=40)
@given(texts)
def test_hostile_texts_in_every_field_stay_texts(said: str) -> None:
    page = Page(made(everywhere(said), "html"))
    check(page)
    # The result of a tool is shown as it is.
    shown = page.text
    assert visible(said).replace("\r", "\\u000d") in shown or "\r" in said


@pytest.mark.parametrize("said", HOSTILE)
def test_each_hostile_text_stays_text(said: str) -> None:
    text = made(everywhere(said), "html")
    check(Page(text))
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]", text
    )


def test_the_policy_lets_a_browser_run_and_load_only_what_the_page_has_by_its_hash() -> None:
    text = made(native(stored_message("u1", None)), "html")
    page = Page(text)
    (policy,) = [one["content"] for one in page.all("meta") if "http-equiv" in one]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    digests = {
        name: base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        for name in ("script", "style")
    }
    assert rules == {
        "default-src": "'none'",
        "script-src": f"'sha256-{digests['script']}'",
        "style-src": f"'sha256-{digests['style']}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    # The policy stands before all that it governs.
    assert text.index("Content-Security-Policy") < text.index("<style") < text.index("<script")


def test_branches_are_folded_but_for_the_path_of_the_head() -> None:
    session = native(
        stored_message("u1", None), stored_message("u2", "u1"), stored_message("u3", "u1")
    )
    page = Page(made(session, "html"))
    found = [one for one in page.all("details") if "branch" in one["class"].split()]
    assert [(one["id"], "open" in one) for one in found] == [
        ("branch-0", True),
        ("branch-1", False),
    ]
    links = [one["href"] for one in page.all("a")]
    assert links.count("#branch-1") == 2, "at the fork and in the outline"
    assert "text of u3" in "".join(page.texts).split("Branch 1")[0]


def test_every_link_into_the_page_has_its_place() -> None:
    session = everywhere("a b\"<&'%#ü")
    page = Page(made(session, "html"))
    places = [
        one["id"] for name, one in page.elements if name in {"article", "details"} and "id" in one
    ]
    assert len(places) == len(set(places))
    inside = {one["href"][1:] for one in page.all("a") if one["href"].startswith("#")}
    assert inside <= set(places)
    assert "entry-a~20b~22~3C~26~27~25~23~C3~BC" in places


def test_entries_of_one_id_have_places_of_their_own() -> None:
    session = native(
        stored_message("u1", None), stored_message("u1", "u1"), stored_message("u" * 400, "u1")
    )
    page = Page(made(session, "html"))
    assert [one["id"] for one in page.all("article")] == ["line-1", "entry-u1", "line-3"]


def test_markdown_is_rendered_without_html_pictures_and_links_that_act() -> None:
    page = Page(
        rendered(
            "**b** <i>x</i> ![<b>](https://x.invalid/p.png) [a](file:///etc) [b](http://x.invalid)"
        )
    )
    assert [name for name, _ in page.elements] == ["p", "strong", "span", "a"]
    assert page.all("a") == [{"href": "http://x.invalid", "rel": "noopener noreferrer nofollow"}]
    assert "<i>x</i> <b> (https://x.invalid/p.png) [a](file:///etc)" in page.text


@pytest.mark.parametrize("said", ["[]()", "[x](<>)", "[x]( )", "[x]\n\n[x]: <>"])
def test_a_link_without_an_address_leads_nowhere(said: str) -> None:
    page = Page(rendered(said))
    assert not any("href" in attributes for attributes in page.all("a"))


def test_a_long_text_is_shown_as_it_is() -> None:
    long = "*x* " * (MARKDOWN_CHARS_MAX // 4 + 1)
    page = Page(made(native(stored_message("u1", None, content=long)), "html"))
    assert page.all("em") == []
    assert long.strip() in page.text


def test_an_empty_session_is_a_page() -> None:
    assert "no entries" in Page(made(native(), "html")).text


def test_a_daemon_that_makes_no_page_loads_no_template_engine() -> None:
    code = (
        "import sys; import sessiond.daemon.process, sessiond.methods;"
        " sys.exit(bool({'jinja2', 'markdown_it', 'markupsafe'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
