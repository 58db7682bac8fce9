"""The logic of the VS Code extension, in Node, against a daemon that is killed; and the package.

The extension's logic adds no protocol of its own: it subscribes by `follow` of the TypeScript client,
which runs the conformance kit (typescript_client/test_conformance.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond_client import BlockingClient
from tests.interop.test_stubs import kill_the_daemon, python_client, run, said
from tests.kit.driver import Driver, JsError
from tests.kit.line_proxy import line_proxy
from tests.kit.node import EXTENSION
from tests.kit.processes import children, unix_connections
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

DRIVER: Final = Path(__file__).with_name("vscode") / "driver.mjs"
SESSION: Final = "session-of-vscode"
IDLE_SECONDS: Final = 3
AT_ONCE: Final = 200
# A log whose changes wake what waits.
LOG: Final = """
    s.log = new core.SessionLog(connection, feeds, session_id, changed);
    await s.log.start();
"""
# The texts of a log: what stands below each heading.
TEXTS: Final = """
    s.texts = () => s.log.snapshot().text.split('\\n').filter((line) => line !== '' && !/^(── |… )/.test(line));
"""


@pytest.fixture
def environment(home: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
    }
    yield environment
    run([SESSIOND, "stop"], environment)


class Window(Driver):
    """A Node process with the logic of one window."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process)
        self.pid = process.pid


Drive = Callable[..., Window]


@pytest.fixture
def drive(node: Path, vscode_extension: Path, environment: Mapping[str, str]) -> Iterator[Drive]:
    """Return a function that starts the logic of a window."""
    with ExitStack() as ends:

        def start(**options: object) -> Window:
            core = vscode_extension / "dist" / "core.mjs"
            process = subprocess.Popen(
                [str(node), str(DRIVER), str(core), json.dumps(options)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            ends.enter_context(process)
            ends.callback(process.kill)
            return Window(process)

        yield start


@pytest.fixture
def session(environment: Mapping[str, str], home: Path) -> str:
    """Return the id of a session with two messages."""
    with python_client(environment) as client:
        client.create(str(home), session_id=SESSION, title="Fix it", persist="immediate")
    say(environment, "Why is it late?", "The clock.")
    return SESSION


def say(environment: Mapping[str, str], *texts: str) -> None:
    with python_client(environment) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def stored(environment: Mapping[str, str]) -> list[str]:
    """Return the content of every stored message, in the order of `seq`."""
    with python_client(environment) as client:
        rows = client.entries(SESSION, limit=10_000).entries
    return [row.entry["message"]["content"] for row in rows if row.entry["type"] == "message"]


def shown(js: Driver, *, until: str) -> list[str]:
    """Return the texts of a log, once it has a text."""
    texts: list[str] = js(
        TEXTS + "return until(() => s.texts().includes(text) && s.texts())", text=until
    )
    return texts


# -- the package ----------------------------------------------------------------------------------


def test_the_package_has_one_bundle_and_no_packages(node: Path, vscode_extension: Path) -> None:
    with zipfile.ZipFile(vscode_extension / "dist" / "sessiond.vsix") as package:
        names = {name.removeprefix("extension/") for name in package.namelist()}
        bundle = package.read("extension/dist/extension.js").decode()
    assert {"package.json", "readme.md", "dist/extension.js", "media/sessions.svg"} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".map"))]
    required = set(re.findall(r'require\("([^"]+)"\)', bundle)) - {"vscode"}
    foreign = "names => names.filter((name) => !require('module').isBuiltin(name))"
    code = f"console.log(JSON.stringify(({foreign})({json.dumps(sorted(required))})))"
    assert said([str(node), "-e", code], os.environ) == []


def test_the_lock_file_names_no_address() -> None:
    lock = (EXTENSION / "package-lock.json").read_text("utf-8")
    assert "://" not in lock
    assert re.findall(r'"resolved": "(.*)"', lock) == ["../typescript"]


def test_every_command_of_the_manifest_is_registered_and_told_by_the_page() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    named = {one["command"]: one["title"] for one in manifest["contributes"]["commands"]}
    source = (EXTENSION / "src" / "editor" / "extension.ts").read_text("utf-8")
    acts = source[source.index("const acts") : source.index("subscriptions.push(")]
    registered = set(re.findall(r"^ {4}(\w+):", acts, re.MULTILINE))
    assert {name.removeprefix("sessiond.sessions.") for name in named} == registered - {"openAt"}
    page = (EXTENSION / "README.md").read_text("utf-8")
    assert [title for title in named.values() if f"**{title}**" not in page] == []
    settings = manifest["contributes"]["configuration"]["properties"]
    assert [name for name in settings if f"`{name}`" not in page] == []


def test_the_logic_knows_no_editor() -> None:
    for path in (EXTENSION / "src" / "core").glob("*.ts"):
        assert not re.search(r'from "vscode"|editor/', path.read_text("utf-8")), path.name


# -- the log --------------------------------------------------------------------------------------


def test_a_log_reads_what_is_stored_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    text = js("return s.log.snapshot().text")
    assert re.fullmatch(
        r"── user ── #1 \d\d:\d\d\nWhy is it late\?\n\n── user ── #2 \d\d:\d\d\nThe clock\.\n", text
    )
    say(environment, "one\r\ntwo\u2028three\rfour")
    assert shown(js, until="four") == [*stored(environment)[:2], "one", "two", "three", "four"]
    js("s.log.stop()")
    assert js("return feeds.size") == 0


def test_entries_that_are_stored_while_a_log_is_read_come_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    for number in range(8):
        js(
            """
            const client = await connection.client();
            const log = new core.SessionLog(connection, feeds, session_id, changed);
            s.log = log;
            const start = log.start();
            const texts = Array.from({length: 10}, (_, index) => `${number}-${index}.`);
            await Promise.all([start, ...texts.map((content) =>
                client.append({session_id, message: {role: 'user', content}}))]);
            """,
            session_id=session,
            number=number,
        )
        texts = shown(js, until=f"{number}-9.")
        assert texts == stored(environment)[-len(texts) :]
        js("s.log.stop()")


def test_a_long_session_begins_with_the_newest_entries(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        write_many(client, 1000)
    js = drive()
    js(LOG, session_id=session)
    texts = shown(js, until="turn 999.")
    assert texts == [f"turn {number}." for number in range(600, 1000)]
    assert js("return s.log.snapshot().text").startswith("… 602 earlier entries\n\n── user ── #603")
    first = js("return s.log.snapshot().firstSeq")
    page = js(
        """
        const page = await core.readPage(connection, session_id, before);
        return {size: page.size, first: page.firstSeq, text: page.text, line: page.lineOf(203), at: page.entryAt(3)};
        """,
        session_id=session,
        before=first,
    )
    assert (page["size"], page["first"], page["at"]["seq"]) == (400, 203, 203)
    assert page["text"].split("\n")[page["line"]].startswith("── user ── #203")
    assert "\nturn 599.\n" in page["text"]
    # What is appended pushes old entries out, a hundred at a time.
    with python_client(environment) as client:
        write_many(client, 120)
    assert len(shown(js, until="turn 119.")) in range(400, 500)


def write_many(client: BlockingClient, count: int) -> None:
    """Append messages, as many in one call as the daemon takes."""
    for begin in range(0, count, AT_ONCE):
        texts = [f"turn {number}." for number in range(begin, min(begin + AT_ONCE, count))]
        messages = ({"role": "user", "content": text} for text in texts)
        client.append(SESSION, entries=[{"type": "message", "message": one} for one in messages])


def test_a_document_is_far_smaller_than_the_session(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    """Write 52 MB; VS Code hands no document over 50 MB to extensions."""
    with python_client(environment) as client:
        for number in range(52):
            text = f"{number}. {'x' * 1_000_000}"
            client.append(SESSION, message={"role": "user", "content": text})
    js = drive()
    js(LOG, session_id=session)
    seen = js(
        """
        let page = s.log.snapshot();
        const pages = [];
        for (;;) {
            pages.push([page.text.length, page.size]);
            if (page.firstSeq === 1) return pages;
            page = await core.readPage(connection, session_id, page.firstSeq);
        }
        """,
        session_id=session,
    )
    assert sum(size for _, size in seen) == 54
    assert max(length for length, _ in seen) < 4_000_000
    assert "\n… 934468 characters more\n" in js("return s.log.snapshot().text")


def test_a_replaced_file_replaces_what_a_log_shows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    with python_client(environment) as client:
        path = client.get(session).path
    assert path is not None
    kill_the_daemon(environment)
    lines = Path(path).read_bytes().splitlines(keepends=True)
    Path(path).write_bytes(b"".join(lines[:2]))
    say(environment, "Another end.")
    assert shown(js, until="Another end.") == ["Why is it late?", "Another end."]


def test_a_deleted_session_is_told_in_its_log(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    with python_client(environment) as client:
        client.delete(session)
    text = js(
        "return until(() => { const {text} = s.log.snapshot(); return /no more/.test(text) && text })"
    )
    assert text.startswith("This session is followed no more: session_not_found")
    assert "The clock." in text
    assert js("return feeds.size") == 0
    with pytest.raises(JsError, match="session_not_found"):
        js(LOG, session_id=session)


def test_every_kind_of_entry_has_a_heading_and_a_text(drive: Drive) -> None:
    entries: list[tuple[dict[str, Any], list[str]]] = [
        (
            {"type": "message", "message": {"role": "a\nb", "content": "x"}},
            ["── a b ── #1", "x", ""],
        ),
        (
            {
                "type": "message",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm"},
                        {"type": "text", "text": "yes"},
                        {"type": "toolCall", "name": "run", "arguments": {"a": 1}},
                        {"type": "image"},
                        "bare",
                        None,
                    ],
                },
            },
            [
                "── assistant ── #1",
                "[thinking] hm",
                "yes",
                '[run] {"a":1}',
                "[image]",
                "bare",
                "",
                "",
            ],
        ),
        ({"type": "compaction", "summary": "short"}, ["── compaction ── #1", "short", ""]),
        ({"type": "label", "label": None}, ["── label ── #1", ""]),
        ({"type": "from.the.future", "x": 1}, ["── from.the.future ── #1", ""]),
        ({"type": "message", "message": None}, ["── message ── #1", ""]),
    ]
    js = drive()
    for entry, lines in entries:
        assert js("return core.block(1, entry, 'main').lines", entry={"id": "e1", **entry}) == lines
    assert (
        js("return core.block(7, {type: 'leaf', id: 'e'}, 'side').lines[0]")
        == "── leaf ── #7 [side]"
    )


# -- two clients on one session, kills, one connection ----------------------------------------------


def test_two_windows_and_a_client_see_the_entries_of_each_other_at_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    windows = [drive(), drive()]
    for js in windows:
        js(LOG, session_id=session)
    for number, js in enumerate(windows):
        js(
            "await new core.OutgoingMessage(connection, {session_id}, text).append()",
            session_id=session,
            text=f"from window {number}",
        )
        for other in windows:
            assert shown(other, until=f"from window {number}")
    say(environment, "from Python")
    for js in windows:
        assert shown(js, until="from Python") == stored(environment)


def test_a_killed_daemon_costs_no_entry_and_doubles_none(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(LOG, session_id=session)
    expected = stored(environment)
    for life in range(3):
        js(
            """
            s.sent = Array.from({length: 20}, (_, turn) =>
                new core.OutgoingMessage(connection, {session_id}, `window ${life}-${turn}.`).append());
            """,
            session_id=session,
            life=life,
        )
        kill_the_daemon(environment)
        say(environment, f"after {life}.")
        js("await Promise.all(s.sent)")
        expected += [f"after {life}.", *(f"window {life}-{turn}." for turn in range(20))]
        texts = js(
            TEXTS + "return until(() => s.texts().length >= count && s.texts())",
            count=len(expected),
        )
        assert sorted(texts) == sorted(expected)
        assert texts == stored(environment)
    assert children(js.pid) == []


def test_a_window_has_one_connection_no_process_and_says_nothing_while_nothing_happens(
    drive: Drive, session: str, environment: Mapping[str, str], socket_path: Path
) -> None:
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    requests: list[bytes] = []

    def note(line: bytes) -> list[bytes]:
        requests.append(line)
        return [line]

    with line_proxy(socket_path, Path(daemon), requests=note):
        js = drive(socket=str(socket_path))
        js(LOG, session_id=session)
        js(
            """
            s.list = new core.SessionList(connection, () => undefined, changed);
            s.outline = new core.SessionOutline(connection, feeds, session_id, changed);
            s.usage = new core.UsageFollow(connection, feeds, (usage) => { s.tokens = usage?.tokens; changed(); });
            await s.list.refresh();
            await s.outline.read();
            await s.usage.show(session_id);
            await until(() => s.tokens);
            """,
            session_id=session,
        )
        assert js("return feeds.size") == 1
        assert unix_connections(js.pid) == 1
        assert children(js.pid) == []
        requests.clear()
        time.sleep(IDLE_SECONDS)
        assert requests == []


def test_the_first_use_starts_the_daemon_and_without_sessiond_the_person_is_told(
    drive: Drive, environment: Mapping[str, str], home: Path
) -> None:
    js = drive(command="/nowhere/sessiond", connectTimeoutMs=0)
    failed = "try { await connection.client() } catch (error) { return [core.isNoDaemon(error), core.sentence(error)] }"
    is_missing, told = js(failed)
    assert is_missing
    assert "install sessiond" in told
    js = drive(command=f"'{SESSIOND}'")
    made = js(
        "return (await (await connection.client()).create({cwd, persist: 'immediate'})).created",
        cwd=str(home),
    )
    assert made
    assert children(js.pid) == []


# -- lists, outlines, tokens, search ----------------------------------------------------------------


def test_a_list_shows_sessions_of_its_folders_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str], home: Path
) -> None:
    js = drive()
    js(
        """
        s.list = new core.SessionList(connection, () => folders, changed);
        await s.list.refresh();
        s.titles = () => s.list.sessions.map(core.titleOf);
        """,
        folders=[str(home)],
    )
    assert js("return s.titles()") == ["Fix it"]
    with python_client(environment) as client:
        client.create("/elsewhere", title="Theirs", persist="immediate")
        client.create(str(home), title="Came later", persist="immediate")
        assert js("return until(() => s.titles().length > 1 && s.titles())") == [
            "Came later",
            "Fix it",
        ]
        client.update(session, title="Mended")
        assert js("return until(() => s.titles().includes('Mended') && s.titles())")
        kill_the_daemon(environment)
    with python_client(environment) as client:
        client.create(str(home), title="After the kill", persist="immediate")
    titles = js("return until(() => s.titles().includes('After the kill') && s.titles())")
    assert sorted(titles) == ["After the kill", "Came later", "Mended"]


def test_an_outline_shows_branches_labels_and_heads_and_follows(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(
        """
        s.outline = new core.SessionOutline(connection, feeds, session_id, changed);
        await s.outline.read();
        const words = ({preview, label, heads, branches}) =>
            [preview, label, heads, branches.map((rows) => rows.map(words))];
        s.words = async () => (await s.outline.read()).rows.map(words);
        """,
        session_id=session,
    )
    assert js("return s.words()") == [
        ["Why is it late?", None, [], []],
        ["The clock.", None, ["main"], []],
    ]
    with python_client(environment) as client:
        first, second = (row.entry["id"] for row in client.entries(session).entries)
        client.branch(session, first, head="side")
        client.append(session, head="side", message={"role": "user", "content": "Time zone."})
        client.branch(session, first)
        client.append(session, message={"role": "user", "content": "The battery."})
        client.label(session, second, "wrong")
    whole = [
        [
            "Why is it late?",
            None,
            [],
            [[["The clock.", "wrong", [], []]], [["Time zone.", None, ["side"], []]]],
        ],
        ["The battery.", None, ["main"], []],
    ]
    js(
        "await until(async () => JSON.stringify(await s.words()) === whole)",
        whole=json.dumps(whole, separators=(",", ":")),
    )


def test_a_long_session_is_outlined_by_the_end_of_its_path(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        write_many(client, 2000)
    js = drive()
    outline = js(
        "return core.readOutline(await connection.client(), session_id)", session_id=session
    )
    assert outline["isCut"]
    assert len(outline["rows"]) == 200
    last = outline["rows"][-1]
    assert (last["seq"], last["kind"], last["preview"]) == (2002, "user", "turn 1999.")
    assert last["heads"] == ["main"]


def test_the_tokens_follow_the_session_that_is_shown(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    js(
        """
        s.usage = new core.UsageFollow(connection, feeds, (usage) => { s.tokens = usage?.tokens; changed(); });
        await s.usage.show(session_id);
        """,
        session_id=session,
    )
    before = js("return until(() => s.tokens)")
    say(environment, "many words " * 400)
    after = js("return until(() => s.tokens > before && s.tokens)", before=before)
    with python_client(environment) as client:
        assert client.usage(session).tokens == after
    js("await s.usage.show(undefined)")
    assert js("return [s.tokens ?? null, feeds.size]") == [None, 0]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1k"),
        (12_345, "12.3k"),
        (200_000, "200k"),
        (999_999, "1M"),
        (1_234_567, "1.2M"),
    ],
)
def test_numbers_of_tokens_are_short(drive: Drive, count: int, text: str) -> None:
    assert drive()("return core.shortNumber(count)", count=count) == text


def test_a_search_finds_and_a_later_question_gives_up_the_one_before(
    drive: Drive, session: str
) -> None:
    js = drive()
    answers = js(
        """
        const search = new core.Search(connection);
        const answers = [search.ask('nothing'), search.ask('  '), search.ask('clo')];
        return (await Promise.all(answers)).map((hits) => hits?.map(({session_id, snippet}) => [session_id, snippet]) ?? null);
        """
    )
    assert answers == [None, [], [[session, "The clock."]]]


def test_a_message_that_is_appended_again_is_stored_once(
    drive: Drive, session: str, environment: Mapping[str, str]
) -> None:
    js = drive()
    again = js(
        """
        const message = new core.OutgoingMessage(connection, {session_id, head: 'main'}, 'once');
        return [(await message.append()).duplicate, (await message.append()).duplicate];
        """,
        session_id=session,
    )
    assert again == [False, True]
    assert stored(environment)[2:] == ["once"]


def test_refusals_are_sentences(drive: Drive, session: str, environment: Mapping[str, str]) -> None:
    js = drive()
    append = """
        const message = new core.OutgoingMessage(connection, {session_id, head: 'main'}, 'x');
        try { await message.append() } catch (error) { return core.sentence(error) }
    """
    assert js(append, session_id="no-such-session") == "There is no such session any more."
    with python_client(environment) as client, client.lease(session):
        assert "Another client works on this head" in js(append, session_id=session)
