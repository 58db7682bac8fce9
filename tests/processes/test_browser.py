"""The HTML export in headless Chromium: folding, search, links, themes, and texts that attack."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sessiond.service.log.open_session import OpenSession
from tests.kit import documents
from tests.kit.documents import HOSTILE, everywhere, native
from tests.kit.sessions import stored_entry, stored_message

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.slow, pytest.mark.search]

# Chromium's own traffic is off: a machine without a network would refuse it again and again.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
]
CANARY = "window.canary = () => { window.fired = true; return true; };"
NO_CANARY = "window.fired === undefined"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium. Without it there is nothing to test: that is a failure."""
    # Imported here: the fast tests are collected where no driver is installed.
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    assert program, "chromium is missing: apt-get install chromium"
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield found
        found.close()


class Site(ThreadingHTTPServer):
    """A web server for one page; it records everything that is asked of it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[str] = []
        self.page = b""
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


SECRET = {"type": "thinking", "thinking": "a needle in a thought"}
# A session with a branch, and a branch of that branch.
BRANCHED = native(
    stored_message("u1", None, content="The beginning."),
    stored_message("a1", "u1", "assistant", "An answer with a needle."),
    stored_message("u2", "a1", content="The way that was taken."),
    stored_message("b1", "a1", content="Another way."),
    stored_message("b2", "b1", "assistant", [SECRET]),
    stored_message("c1", "b1", content="A way of the other way: needle, needle."),
    stored_entry("label", "l1", "c1", target_id="a1", label="good"),
    stored_entry("leaf", "m1", "c1", target_id="u2"),
)
# Gives the ids of what a locator finds.
IDS = "found => found.map((one) => one.id)"
UNFOLDED = ".branch[open]"


def made(session: OpenSession) -> str:
    """Return the page of a session, made in a thread of its own: the driver's loop runs in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(documents.made, session, "html").result()


def opened_page(
    browser: Browser, site: Site, session: OpenSession, where: str = "", **more: Any
) -> Page:
    """Open the page of a session, with a canary that a script of the session's texts would call."""
    site.page = made(session).encode()
    page = browser.new_page(**more)
    page.add_init_script(CANARY)
    page.goto(f"{site.url}/page.html{where}")
    return page


def expect(place: Locator) -> Any:
    """Return assertions that wait until they hold."""
    from playwright.sync_api import expect as expected

    return expected(place)


def in_view(place: Locator) -> bool:
    inside: bool = place.evaluate(
        "at => { const box = at.getBoundingClientRect();"
        " return box.height > 0 && box.top >= 0 && box.top < innerHeight; }"
    )
    return inside


def test_branches_fold_and_unfold(browser: Browser, site: Site) -> None:
    page = opened_page(browser, site, BRANCHED)
    assert page.locator(UNFOLDED).evaluate_all(IDS) == ["branch-0"]
    assert page.locator("#entry-u2").is_visible()
    assert not page.locator("#entry-b1").is_visible()
    # A branch of a folded branch is not shown at all.
    assert page.locator("#branch-1 > summary").is_visible()
    assert not page.locator("#branch-2 > summary").is_visible()
    page.click("#branch-1 > summary", position={"x": 5, "y": 10})
    # The browser tells a page of what was unfolded, and lays the page out, in its own time.
    expect(page.locator("#entry-b1")).to_be_visible()
    expect(page.locator("#branch-2 > summary")).to_be_visible()
    expect(page.locator("#fold")).to_have_text("Unfold branches")
    page.click("#fold")
    expect(page.locator("#fold")).to_have_text("Fold branches")
    assert page.locator(UNFOLDED).evaluate_all(IDS) == ["branch-0", "branch-1", "branch-2"]
    page.click("#fold")
    expect(page.locator("#fold")).to_have_text("Unfold branches")
    assert page.locator(UNFOLDED).evaluate_all(IDS) == ["branch-0"]
    expect(page.locator("#branch-2 > summary")).not_to_be_visible()


def test_a_link_opens_what_it_points_to(browser: Browser, site: Site) -> None:
    page = opened_page(browser, site, BRANCHED, "#entry-c1", viewport={"width": 900, "height": 300})
    expect(page.locator("#branch-1")).to_have_attribute("open", "")
    assert in_view(page.locator("#entry-c1"))
    page.goto(f"{site.url}/page.html#entry-u1")
    assert in_view(page.locator("#entry-u1"))
    # The time of an entry is the link to the entry.
    page.locator("#entry-u2 a.here").click()
    assert page.url.endswith("#entry-u2")
    page.locator("#entry-a1 .forks a").click()
    assert page.url.endswith("#branch-1")
    assert in_view(page.locator("#branch-1"))


def test_search_finds_every_entry_and_goes_from_one_to_the_next(
    browser: Browser, site: Site
) -> None:
    page = opened_page(browser, site, BRANCHED)
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    expect(page.locator("#found")).to_have_text("3")
    seen = []
    for expected in ("1 of 3", "2 of 3", "3 of 3", "1 of 3"):
        page.keyboard.press("Enter")
        assert page.inner_text("#found") == expected
        current = page.locator(".entry.current")
        assert in_view(current)
        seen.append(current.get_attribute("id"))
    assert seen == ["entry-a1", "entry-b2", "entry-c1", "entry-a1"]
    assert page.evaluate("[...CSS.highlights.get('found')].length") == 1
    page.keyboard.press("Shift+Enter")
    assert page.inner_text("#found") == "3 of 3"
    assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == ["needle", "needle"]
    # The thought that has the word was opened.
    assert page.locator("#entry-b2 details[open]").count() == 1
    page.fill("#query", "no such word")
    expect(page.locator("#found")).to_have_text("0")
    assert page.locator(".entry.current").count() == 0


def test_the_theme_follows_the_system_until_a_reader_chooses(browser: Browser, site: Site) -> None:
    def shade(page: Page) -> int:
        color: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, color[4:-1].split(",")))

    page = opened_page(browser, site, BRANCHED, color_scheme="dark")
    assert shade(page) < 200
    page.emulate_media(color_scheme="light")
    assert shade(page) > 600
    page.click("#theme")
    assert (page.inner_text("#theme"), shade(page) < 200) == ("Theme: dark", True)
    page.click("#theme")
    page.emulate_media(color_scheme="dark")
    assert (page.inner_text("#theme"), shade(page) > 600) == ("Theme: light", True)
    page.click("#theme")
    assert (page.inner_text("#theme"), shade(page) < 200) == ("Theme: system", True)


@pytest.mark.parametrize("width", [320, 700, 1280])
def test_nothing_is_wider_than_the_window(browser: Browser, site: Site, width: int) -> None:
    word = "w" * 3000
    table = f"| {word} | b |\n|---|---|\n| `{word}` | {word} |\n\n```\n{word}\n```\n"
    session = native(
        stored_message(word[:150], None, content=table),
        stored_message("a1", word[:150], "assistant", [{"type": "thinking", "thinking": word}]),
        stored_entry("label", "l1", "a1", target_id="a1", label=word),
        title=word,
        cwd="/" + word,
    )
    page = opened_page(browser, site, session, viewport={"width": width, "height": 600})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_hostile_texts_run_no_script_and_send_no_request(browser: Browser, site: Site) -> None:
    page = browser.new_page()
    page.add_init_script(CANARY)
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.on("popup", lambda popup: pytest.fail(popup.url))
    for said in HOSTILE:
        local = said.replace("https://canary.invalid", site.url)
        site.page, site.asked[:] = made(everywhere(local)).encode(), []
        page.goto(f"{site.url}/page.html")
        page.click("#fold")
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        page.hover(".entry >> nth=0")
        page.fill("#query", local)
        page.keyboard.press("Enter")
        page.evaluate("new Promise(requestAnimationFrame)")
        assert page.evaluate(NO_CANARY), said
        assert page.locator("script").count() == 1
        assert site.asked == ["/page.html"], said


def test_the_policy_holds_against_a_script_and_a_picture_that_come_in_later(
    browser: Browser, site: Site
) -> None:
    page = opened_page(browser, site, BRANCHED)
    page.evaluate(
        """() => new Promise((done) => {
            const refused = new Set(["script-src-elem", "script-src-attr", "img-src"]);
            document.addEventListener("securitypolicyviolation", (told) => {
                refused.delete(told.effectiveDirective);
                if (refused.size === 0) done();
            });
            const script = document.createElement("script");
            script.textContent = "window.canary()";
            const picture = document.createElement("img");
            picture.src = "/picture.png";
            picture.setAttribute("onerror", "window.canary()");
            document.body.append(script, picture);
        })"""
    )
    assert page.evaluate(NO_CANARY)
    assert site.asked == ["/page.html"]


def test_ten_thousand_entries_open_and_only_those_in_sight_are_laid_out(
    browser: Browser, site: Site
) -> None:
    entries = [
        stored_message(
            f"n{n}",
            f"n{n - 1}" if n else None,
            "assistant" if n % 2 else "user",
            f"Entry **{n}** says:\n\n* one\n* two\n\n```\nx = {n}\n```",
        )
        for n in range(10_000)
    ]
    page = opened_page(browser, site, native(*entries))
    laid_out = (
        "[...document.querySelectorAll('.entry')].filter((one) =>"
        " one.firstElementChild.checkVisibility({contentVisibilityAuto: true})).length"
    )
    assert page.locator(".entry").count() == 10_000
    assert 0 < page.evaluate(laid_out) < 200
    page.goto(f"{site.url}/page.html#entry-n9990")
    expect(page.locator("#entry-n9990")).to_be_in_viewport()
    assert in_view(page.locator("#entry-n9990"))
    assert 0 < page.evaluate(laid_out) < 200
    page.fill("#query", "entry 7777 says")
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_have_text("1 of 1")
    assert in_view(page.locator("#entry-n7777"))
