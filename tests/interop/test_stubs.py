"""The stubs of clients/stubs, as processes, against a daemon that is killed.

`run` is the command line of a stub, in an environment with a home of the test's own. In most of
these tests only the stubs start a daemon: a stub that finds none starts one.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

import sessiond_client
from sessiond import __version__
from tests.interop.test_conformance import CASES, skipped, with_daemon
from tests.kit.foreign_places import PLACES, WAYS, overheard
from tests.kit.large_context import put_large_context, require_large_context
from tests.kit.other_user import OTHER_UID
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND, Daemon
from tests.versions.talk import another_daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

STUBS: Final = Path(__file__).resolve().parents[2] / "clients" / "stubs"
ADAPTER: Final = Path(__file__).with_name("conformance_stubs.py")
KINDS: Final = ["py", "mjs", "sh"]
SESSION: Final = "session-of-stubs"
TEXT: Final = 'She said "why?" \\ and\ttwo lines:\n日本 \u2028 é 😀 $HOME `id` %s\n'
# The cases about what a stub does.
CONCERNED: Final = [
    name
    for name in CASES
    if name.startswith(("append-", "atom-", "context-", "retry-", "session-not", "subscribe-"))
    or name in {"branch-and-context", "payload-after-restart", "text-beyond-ascii"}
]
NEVER_LEFT_OUT: Final = {
    "append-atom",
    "append-message",
    "atom-survives-kill",
    "branch-and-context",
    "retry-after-kill",
    "session-not-found",
    "subscribe-replays",
    "subscribe-resumes-across-kill",
}
EVENT: Final = "session/event"

Json = dict[str, Any]


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the suffix of a stub's name."""
    name: str = request.param
    return name


@pytest.fixture
def interpreter(
    kind: str, request: pytest.FixtureRequest, program: Callable[[str], str]
) -> list[str]:
    """Return the interpreter of the stub; skip the test if a program that it needs is missing."""
    if kind == "mjs":
        return [str(request.getfixturevalue("node"))]
    if kind == "sh":
        program("socat")
        return [program("sh")]
    return [sys.executable]


@pytest.fixture
def stub(kind: str, interpreter: list[str]) -> list[str]:
    """Return the command of the stub, without its arguments."""
    return [*interpreter, str(STUBS / f"stub.{kind}")]


@pytest.fixture
def environment(home: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    yield environment
    run([SESSIOND, "stop"], environment)


def run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def said(command: list[str], environment: Mapping[str, str]) -> Any:
    """Run a command that must succeed; return its output, decoded from JSON."""
    done = run(command, environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def python_client(environment: Mapping[str, str]) -> Iterator[sessiond_client.BlockingClient]:
    """Yield a Python client of the environment's daemon."""
    place = said([SESSIOND, "start", "--json"], environment)["socket"]
    with sessiond_client.connect_blocking(place) as client:
        yield client


def new_session(environment: Mapping[str, str]) -> None:
    with python_client(environment) as client:
        client.create(cwd="/my/project", session_id=SESSION, persist="immediate")


def say(environment: Mapping[str, str], *texts: str) -> None:
    with python_client(environment) as client:
        for text in texts:
            client.append(SESSION, message={"role": "user", "content": text})


def contents(environment: Mapping[str, str], session: str = SESSION) -> list[str]:
    """Return the text of every stored message, in the order of `seq`."""
    with python_client(environment) as client:
        rows = client.entries(session).entries
    return [row.entry["message"]["content"] for row in rows]


class Watch:
    """A stub that watches."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        # A wait in vain ends with the end of the output, not never.
        self._watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        self._watchdog.start()

    def events(self, upto: int) -> list[Json]:
        """Return the params of the next events, up to the one with this `seq`."""
        assert self._process.stdout is not None
        found: list[Json] = []
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("method") == EVENT:
                found.append(message["params"])
                if message["params"]["seq"] == upto:
                    return found
        raise AssertionError(f"it ended after {found}: {self._process.communicate()[1]}")

    def end(self) -> None:
        self._watchdog.cancel()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@contextmanager
def watching(command: list[str], environment: Mapping[str, str]) -> Iterator[Watch]:
    watch = Watch(command, environment)
    try:
        yield watch
    finally:
        watch.end()


@contextmanager
def stopped_at_the_end(environment: Mapping[str, str], daemon: Daemon) -> Iterator[None]:
    """End the daemon that was started here, and the one that a stub started."""
    try:
        yield
    finally:
        daemon.discard()
        run([SESSIOND, "stop"], environment)


def request_on(connection: socket.socket) -> bytes:
    """Return the request of a stub, which comes behind an `initialize`."""
    with connection.makefile("rb") as lines:
        assert json.loads(lines.readline())["method"] == "initialize"
        return lines.readline()


def kill_the_daemon(environment: Mapping[str, str]) -> None:
    os.kill(said([SESSIOND, "status", "--json"], environment)["pid"], signal.SIGKILL)


# -- what they are ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_stub_is_one_short_file(kind: str) -> None:
    text = (STUBS / f"stub.{kind}").read_text("utf-8")
    assert text.count("\n") <= 110
    assert max(map(len, text.splitlines())) <= 120


def test_the_stubs_need_the_standard_library_only() -> None:
    tree = ast.parse((STUBS / "stub.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    (names,) = [[alias.name for alias in node.names] for node in imports]
    assert set(names) <= sys.stdlib_module_names
    sources = re.findall(
        r'^import .* from "(.*)";', (STUBS / "stub.mjs").read_text("utf-8"), re.MULTILINE
    )
    assert sources
    assert [name for name in sources if not name.startswith("node:")] == []


def test_the_page_of_the_stubs_names_each() -> None:
    page = (STUBS / "README.md").read_text("utf-8")
    assert [kind for kind in KINDS if f"stub.{kind}" not in page] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", ["retry_after_ms", "etag"])
def test_the_pages_say_what_a_stub_leaves_out(kind: str, word: str) -> None:
    page, _, _ = (STUBS.parents[1] / "docs" / "clients.md").read_text("utf-8").partition("## 1.")
    for text in (page, (STUBS / "README.md").read_text("utf-8")):
        assert f"`{word}`" in text
    assert word not in (STUBS / f"stub.{kind}").read_text("utf-8")


# -- whom they talk to --------------------------------------------------------------------------


@pytest.fixture
def as_root(absent: Callable[[str], NoReturn]) -> None:
    """Leave the test out without the right to be another user."""
    if os.geteuid():
        absent("only root can listen as another user")


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize("name", PLACES | WAYS)
def test_a_stub_sends_nothing_where_another_user_may_listen(
    name: str,
    kind: str,
    stub: list[str],
    environment: Mapping[str, str],
    socket_path: Path,
) -> None:
    """The stub in Python asks who listens; the other two look at the folder."""
    make, _ = (PLACES | WAYS)[name]
    place = make(socket_path.parent)
    with overheard(place, name):
        done = run([*stub, "context", SESSION], {**environment, "SESSIOND_SOCKET": str(place)})
    assert done.returncode == 1
    assert done.stderr.startswith(f"nothing was sent to {place}: ")
    assert (f"uid {OTHER_UID}" if kind == "py" else "mode 0700") in done.stderr
    assert len(done.stderr.splitlines()) == 1


# -- the daemon beside them ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age", "version"), [("older", "0.1.0"), ("newer", "9.0.0"), ("newer", "0.10.0")]
)
def test_a_stub_beside_a_daemon_of_another_version_says_so_once_and_works(
    age: str,
    version: str,
    stub: list[str],
    environment: Mapping[str, str],
    socket_path: Path,
) -> None:
    with another_daemon(socket_path, version):
        done = run(
            [*stub, "context", SESSION], {**environment, "SESSIOND_SOCKET": str(socket_path)}
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"]
    assert done.stderr == (
        f"the running daemon is {age} ({version}) than this stub ({__version__}):"
        " `sessiond restart` replaces it\n"
    )


def test_a_stub_that_is_refused_again_and_again_says_it_once(
    stub: list[str], environment: Mapping[str, str], tmp_path: Path, socket_path: Path
) -> None:
    """Refuse the request twice; each time the stub makes a connection and greets the daemon anew."""
    (tmp_path / "sessiond").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "sessiond").chmod(0o755)
    search = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    named = {**environment, "SESSIOND_SOCKET": str(socket_path), "PATH": search}
    data = {"kind": "overloaded", "retryable": True}
    refused = {"error": {"code": -32001, "message": "full", "data": data}}
    asked = {"method": "session/build_context"}
    answered: Json = {"result": {"messages": []}}
    talk = [[asked, refused], [asked, refused], [asked, answered]]
    with another_daemon(socket_path, "0.1.0", talk):
        done = run([*stub, "context", SESSION], named)
    assert json.loads(done.stdout) == {"messages": []}
    assert done.stderr.count("the running daemon is older (0.1.0)") == 1
    assert len(done.stderr.splitlines()) == 1


# -- what they do -------------------------------------------------------------------------------


def test_a_stub_starts_the_daemon_and_appends_any_text(
    stub: list[str], environment: Mapping[str, str]
) -> None:
    new_session(environment)
    run([SESSIOND, "stop"], environment)
    stored = said([*stub, "append", SESSION, TEXT], environment)
    assert (stored["seq"], stored["duplicate"], stored["durability"]) == (1, False, "disk")
    assert contents(environment) == [TEXT]


@pytest.mark.parametrize("is_stored", [False, True], ids=["before-it-stored", "after-it-stored"])
def test_an_append_is_stored_once_when_the_daemon_dies_before_it_answers(
    stub: list[str],
    environment: Mapping[str, str],
    home: Path,
    socket_path: Path,
    is_stored: bool,
) -> None:
    """The test listens where the daemon should, and hands the request on, or does not."""
    daemon = Daemon(socket_path.with_name("real"), home / "data")
    environment = {**environment, "SESSIOND_SOCKET": str(socket_path)}
    with stopped_at_the_end(environment, daemon), socket.socket(socket.AF_UNIX) as listener:
        daemon.start()
        with daemon.connect() as link:
            link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
        listener.bind(str(socket_path))
        listener.listen()
        process = subprocess.Popen(
            [*stub, "append", SESSION, TEXT], env=environment, stdout=subprocess.PIPE, text=True
        )
        with process, listener.accept()[0] as connection:
            request = request_on(connection)
            if is_stored:
                with daemon.connect() as link:
                    link.send(request)
                    assert not link.message()["result"]["duplicate"]
            daemon.end(signal.SIGKILL)
            listener.close()
            socket_path.unlink()
            connection.close()
            answer, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert json.loads(answer)["duplicate"] is is_stored
        assert contents(environment) == [TEXT]


NOTES_PAUSES: Final = {
    "sitecustomize.py": """
import os, time
def note(seconds):
    with open(os.environ["PAUSES"], "a") as pauses:
        print(seconds, file=pauses)
time.sleep = note
""",
    "pauses.mjs": """
import { appendFileSync } from "node:fs";
import { promisify } from "node:util";
const note = async (ms) => appendFileSync(process.env.PAUSES, `${ms / 1000}\\n`);
globalThis.setTimeout = Object.assign(() => undefined, { [promisify.custom]: note });
""",
    "sleep": '#!/bin/sh\necho "$1" >> "$PAUSES"\n',
}
"""Files by which Python, Node and a shell note a pause, in seconds, in place of pausing."""


def test_the_pause_before_a_request_is_sent_again_grows(
    stub: list[str], environment: Mapping[str, str], tmp_path: Path, socket_path: Path
) -> None:
    """Refuse a request five times in place of the daemon; `sessiond start` does nothing here."""
    for name, text in {**NOTES_PAUSES, "sessiond": "#!/bin/sh\n"}.items():
        program = tmp_path / name
        program.write_text(text, "utf-8")
        program.chmod(0o755)
    environment = {
        **environment,
        "SESSIOND_SOCKET": str(socket_path),
        "PATH": f"{tmp_path}{os.pathsep}{environment['PATH']}",
        "PYTHONPATH": str(tmp_path),
        "NODE_OPTIONS": f"--import {tmp_path / 'pauses.mjs'}",
        "PAUSES": str(tmp_path / "pauses"),
    }
    data = {"kind": "overloaded", "retryable": True}
    refusal: Json = {"error": {"code": -32001, "message": "full", "data": data}}
    result: Json = {"result": {"messages": []}}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        process = subprocess.Popen(
            [*stub, "context", SESSION], env=environment, stdout=subprocess.PIPE, text=True
        )
        with process:
            for outcome in [*([refusal] * 5), result]:
                with listener.accept()[0] as connection:
                    request_on(connection)
                    answer = {"jsonrpc": "2.0", "id": 1, **outcome}
                    connection.sendall(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
            said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert json.loads(said) == {"messages": []}
    pauses = [float(line) for line in (tmp_path / "pauses").read_text("utf-8").splitlines()]
    assert len(pauses) == 5
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.8 < pauses[-1], pauses


LIMITS: Final = {"py": "settimeout(60)", "mjs": "60_000", "sh": "limit=60"}


def test_a_daemon_that_hangs_is_asked_again(
    kind: str,
    interpreter: list[str],
    environment: Mapping[str, str],
    tmp_path: Path,
    socket_path: Path,
) -> None:
    """Say nothing to the first request; the copy of the stub waits for half a second in place of 60."""
    text, limit = (STUBS / f"stub.{kind}").read_text("utf-8"), LIMITS[kind]
    assert text.count(limit) == 1
    stub = tmp_path / f"stub.{kind}"
    stub.write_text(
        text.replace(limit, limit.replace("60_000", "500").replace("60", "0.5")), "utf-8"
    )
    (tmp_path / "sessiond").write_text("#!/bin/sh\n", "utf-8")
    (tmp_path / "sessiond").chmod(0o755)
    environment = {
        **environment,
        "SESSIOND_SOCKET": str(socket_path),
        "PATH": f"{tmp_path}{os.pathsep}{environment['PATH']}",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        process = subprocess.Popen(
            [*interpreter, str(stub), "context", SESSION],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process, listener.accept()[0], listener.accept()[0] as connection:
            request_on(connection)
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"messages":[]}}\n')
            said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert json.loads(said) == {"messages": []}


def test_a_watch_goes_on_over_a_killed_daemon_without_gap_or_double(
    stub: list[str], environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one", "two", "three")
    with watching([*stub, "watch", SESSION], environment) as watch:
        events = watch.events(upto=3)
        for round_ in range(2):
            say(environment, f"before {round_}")
            events += watch.events(upto=4 + 3 * round_)
            kill_the_daemon(environment)
            say(environment, f"meanwhile {round_}", f"after {round_}")
            events += watch.events(upto=6 + 3 * round_)
    assert [event["seq"] for event in events] == list(range(1, 10))
    shown = [event["entry"]["message"]["content"] for event in events]
    assert shown == contents(environment)


def test_a_watch_begins_behind_a_cursor(stub: list[str], environment: Mapping[str, str]) -> None:
    new_session(environment)
    say(environment, "one", "two", "three")
    with python_client(environment) as client:
        row = client.entries(SESSION).entries[1]
    cursor = json.dumps({"seq": row.seq, "entry_id": row.entry["id"]})
    with watching([*stub, "watch", SESSION, cursor], environment) as watch:
        assert [event["seq"] for event in watch.events(upto=3)] == [3]


def test_a_watch_ends_with_the_session(stub: list[str], environment: Mapping[str, str]) -> None:
    new_session(environment)
    say(environment, "one")
    watch = subprocess.Popen(
        [*stub, "watch", SESSION],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watch.stdout is not None
        while "session/synced" not in watch.stdout.readline():
            pass
        with python_client(environment) as client:
            client.delete(SESSION)
        _, errors = watch.communicate(timeout=PATIENCE_SECONDS)
    finally:
        watch.kill()
    assert watch.returncode not in {0, None}
    assert "session_not_found" in errors


def test_a_context_is_the_one_that_the_python_client_gets(
    stub: list[str], environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, TEXT, "and more", "x" * 100_000)
    with python_client(environment) as client:
        wanted = client.build_context(SESSION)
    got = said([*stub, "context", SESSION], environment)
    assert got["messages"] == list(wanted.messages)
    assert (got["leaf_id"], got["seq"]) == (wanted.leaf_id, wanted.seq)
    assert len(got["messages"]) == 3


def test_a_stub_makes_a_session_once_in_the_folder_where_it_runs(
    stub: list[str], environment: Mapping[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / 'a "folder" of 日本'
    folder.mkdir()
    for created in (True, False):
        done = subprocess.run(
            [*stub, "create", SESSION],
            env={**environment, "PWD": str(folder)},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
        answer = json.loads(done.stdout)
        assert (answer["created"], answer["session"]["cwd"]) == (created, str(folder))
    with python_client(environment) as client:
        assert [one.id for one in client.list().sessions] == [SESSION]


def test_a_stub_moves_main_and_compacts(stub: list[str], environment: Mapping[str, str]) -> None:
    said([*stub, "create", SESSION], environment)
    first, *_ = [said([*stub, "append", SESSION, text], environment) for text in ("a", "b", "c")]
    moved = said([*stub, "branch", SESSION, first["leaf_id"]], environment)
    assert (moved["head"], moved["leaf_id"]) == ("main", first["leaf_id"])
    with python_client(environment) as client:
        assert client.get(SESSION).leaf_id == first["leaf_id"]
    said([*stub, "append", SESSION, "d"], environment)
    said([*stub, "compact", SESSION, TEXT], environment)
    (message,) = said([*stub, "context", SESSION], environment)["messages"]
    assert message["summary"] == TEXT
    # Without a summary the daemon would have one written, and here nobody writes any.
    for text in ("e", "f " * 45_000, "g " * 45_000):
        said([*stub, "append", SESSION, text], environment)
    done = run([*stub, "compact", SESSION], environment)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "summarizer_unavailable" in done.stderr


@pytest.mark.parametrize("command", ["branch", "compact"])
def test_a_change_whose_answer_is_lost_is_not_done_twice(
    command: str, stub: list[str], environment: Mapping[str, str], home: Path, socket_path: Path
) -> None:
    """The test hands the change on to the daemon, kills the daemon, and gives no answer."""
    daemon = Daemon(socket_path.with_name("real"), home / "data")
    environment = {**environment, "SESSIOND_SOCKET": str(socket_path)}
    with stopped_at_the_end(environment, daemon), socket.socket(socket.AF_UNIX) as listener:
        daemon.start()
        with daemon.connect() as link:
            link.ask("session/create", cwd="/p", session_id=SESSION, persist="immediate")
            rows = [{"role": "user", "content": text} for text in "ab"]
            made = [link.ask("append", session_id=SESSION, message=one) for one in rows]
        words = {"branch": made[0]["leaf_id"], "compact": "Short."}
        listener.bind(str(socket_path))
        listener.listen()
        process = subprocess.Popen(
            [*stub, command, SESSION, words[command]],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            if command == "branch":
                with listener.accept()[0] as connection, daemon.connect() as link:
                    link.send(request_on(connection))
                    spelled = json.dumps(link.message(), separators=(",", ":"))
                    connection.sendall(spelled.encode() + b"\n")
            with listener.accept()[0] as connection, daemon.connect() as link:
                link.send(request_on(connection))
                assert "result" in link.message()
                daemon.end(signal.SIGKILL)
                listener.close()
                socket_path.unlink()
            answer, refusal = process.communicate(timeout=PATIENCE_SECONDS)
        with python_client(environment) as client:
            entries = client.entries(SESSION).entries
            kinds = [row.entry["type"] for row in entries]
            assert len(kinds) == 3
            if command == "branch":
                assert (process.returncode != 0, answer) == (True, "")
                assert "precondition_failed" in refusal
                assert client.get(SESSION).leaf_id == made[0]["leaf_id"]
            else:
                assert json.loads(answer)["entry"]["id"] == entries[-1].entry["id"]


@pytest.mark.parametrize(
    "words",
    [["append", "hi"], ["watch"], ["context"], ["branch", "an-entry"], ["compact"]],
    ids=lambda w: w[0],
)
def test_a_session_that_is_not_there_is_an_error_that_says_so(
    stub: list[str], environment: Mapping[str, str], words: list[str]
) -> None:
    command, *rest = words
    done = run([*stub, command, "no-such-session", *rest], environment)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "session_not_found" in done.stderr
    assert "no session of this id" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("words", [[], ["dance", SESSION], ["append", SESSION]], ids=str)
def test_words_that_are_no_command_get_the_usage(
    stub: list[str], environment: Mapping[str, str], words: list[str]
) -> None:
    done = run([*stub, *words], environment)
    assert done.returncode != 0
    assert "append SESSION TEXT | watch SESSION" in done.stderr


@pytest.mark.conformance
@pytest.mark.timeout(400)
def test_the_conformance_kit_runs_the_stubs(
    kind: str, interpreter: list[str], sessiond_program: str
) -> None:
    client = shlex.join([sys.executable, str(ADAPTER), kind, *interpreter])
    code, outcomes = with_daemon(sessiond_program, "--client", client, *CONCERNED)
    left_out = skipped(outcomes)
    assert code == 0
    # What a stub is for is never left out; the shell's stub passes numbers on as they are spelled.
    spelled = {"retry-same-ids", "retry-same-key", "payload-after-restart"}
    assert NEVER_LEFT_OUT | (spelled if kind == "sh" else set()) <= outcomes.keys() - left_out


def test_a_context_that_is_larger_than_an_answer_comes_whole(
    stub: list[str], environment: Mapping[str, str]
) -> None:
    with python_client(environment) as client:
        put_large_context(client, SESSION)
    done = run([*stub, "context", SESSION], environment)
    assert done.returncode == 0, done.stderr[-1000:]
    # The shell prints a page a line.
    pages = [json.loads(line) for line in done.stdout.splitlines()]
    contents = [message["content"] for page in pages for message in page["messages"]]
    require_large_context(
        [one[0] for one in contents],
        [*map(len, contents)],
        sum(len(page["sources"]) for page in pages),
    )
