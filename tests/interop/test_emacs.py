"""The Emacs package, in a running Emacs, against a daemon that is killed.

`Editor` is an Emacs with its command loop, driven by emacsclient; keys go through the keymaps of
its buffers. The other client on a session is the Python client. No test relies on a pause: a test
waits until a form is true.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self

import pytest

from sessiond_client import EntryEvent
from tests.interop.test_conformance import BELOW_A_CLIENT, CASES, skipped, with_daemon
from tests.interop.test_stubs import (
    SESSION,
    TEXT,
    contents,
    kill_the_daemon,
    new_session,
    python_client,
    run,
    said,
    say,
)
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = REPOSITORY / "clients" / "emacs"
FILES: Final = ["sessiond-client.el", "sessiond.el"]
SCRIPTS: Final = Path(__file__).with_name("emacs")
TAIL: Final = f"*sessiond tail {SESSION}*"
TREE: Final = f"*sessiond tree {SESSION}*"
PATIENCE_SECONDS: Final = 60
IDLE_SECONDS: Final = 3
# What is left out because a number there is spelled in a way that Emacs does not write.
OTHER_NUMBERS: Final = {
    "append-entry-types",
    "big-integers-and-decimals",
    "compaction",
    "import-and-export",
    "payload-after-restart",
    "pipelined-signals-keep-their-order",
    "repair",
    "retry-same-ids",
    "retry-same-key",
    "signals",
    "state-store",
    "subscribe-from-now",
    "update",
}
MODES: Final = {
    "sessiond-list-mode": ["RET", "t", "a", "+", "w", "g"],
    "sessiond-tree-mode": ["RET", "n", "p", "m", "b", "l", "a", "t", "g"],
    "sessiond-tail-mode": ["RET", "n", "p", "a", "t", "g"],
    "sessiond-message-mode": ["C-c C-c", "C-c C-k"],
    "sessiond-entry-mode": ["q"],
}

Json = dict[str, Any]


@pytest.fixture
def emacs(program: Callable[[str], str]) -> str:
    return program("emacs")


@pytest.fixture
def place() -> Iterator[Path]:
    """Yield a folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="sd-") as folder:
        yield Path(folder)


@pytest.fixture
def environment(home: Path, place: Path) -> Iterator[Mapping[str, str]]:
    """Yield a user's environment with an empty home; stop its daemon at the end."""
    environment = {
        **os.environ,
        "PATH": f"{Path(SESSIOND).parent}{os.pathsep}{os.environ['PATH']}",
        "SESSIOND_HOME": str(home / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "XDG_RUNTIME_DIR": str(place),
    }
    yield environment
    run([SESSIOND, "stop"], environment)


class Editor:
    """A running Emacs."""

    def __init__(self, emacs: str, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.tolerates_failures = False
        self._log = Path(environment["HOME"], "emacs.log")
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    # Emacs compiles its own Lisp in a process, where it can.
                    *(emacs, "-Q", "--eval", "(setq native-comp-deferred-compilation nil)"),
                    *("--fg-daemon=editor", "-L", str(PACKAGE), "-L", str(SCRIPTS)),
                    *("-l", "driver", "-l", "sessiond"),
                ],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self) -> None:
        """Wait until Emacs answers."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while self._client("t").returncode != 0:
            assert time.monotonic() < give_up, self.said()
            assert self.process.poll() is None, self.said()

    def _client(self, form: str) -> subprocess.CompletedProcess[str]:
        return run(["emacsclient", "-s", "editor", "--eval", form], self._environment)

    def said(self) -> str:
        """Return what Emacs wrote on its standard error."""
        return self._log.read_text("utf-8", "replace")

    def eval(self, form: str) -> Any:
        """Evaluate a form; return its value."""
        coded = base64.b64encode(form.encode()).decode()
        done = self._client(f'(drive "{coded}")')
        assert done.returncode == 0, done.stderr
        answer = json.loads(base64.b64decode(done.stdout.strip().strip('"')))
        assert "error" not in answer, f"{form}: {answer}"
        return answer["value"]

    def until(self, form: str, is_right: Callable[[Any], bool] = bool) -> Any:
        """Wait until the value of a form is right; return the value."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not is_right(value := self.eval(form)):
            assert time.monotonic() < give_up, f"{form} is {value}"
        return value

    def text(self, buffer: str, *parts: str) -> str:
        """Wait until a buffer has all the parts; return its text."""
        form = f'(if (get-buffer {quoted(buffer)}) (driver-text {quoted(buffer)}) "")'
        text: str = self.until(form, lambda text: all(part in text for part in parts))
        return text

    def keys(self, keys: str, on: str | None = None) -> None:
        """Type keys in the selected window, on the line with a text."""
        if on is not None:
            self.eval(f"(driver-go-to {quoted(on)})")
        self.eval(f"(driver-keys {quoted(keys)})")

    def command(self, name: str, session: str = SESSION) -> None:
        """Call a command with a session."""
        self.eval(f"(progn ({name} {quoted(session)}) nil)")

    def events(self, count: int) -> list[Json]:
        """Wait until the test's subscription got so many entries; return all events."""
        found: list[Json] = self.until(
            "(reverse driver-events)",
            lambda events: len([e for e in events or [] if "entry" in e["params"]]) >= count,
        )
        return found

    def ask(self, method: str, params: str) -> Json:
        """Send a request; return its result or its error."""
        self.eval(f"(progn (setq driver-answers nil) (driver-ask {quoted(method)} {params}))")
        outcome: Json = self.until("(car driver-answers)")
        return outcome

    def end(self) -> None:
        """Kill Emacs; leave no start of a daemon behind, which would come after the test."""
        with suppress(AssertionError):
            self.eval("(setq sessiond-start-daemon nil)")
            self.until('(not (get-process "sessiond-start"))')
        self.process.kill()
        self.process.wait()


def quoted(text: str) -> str:
    """Return a text as Emacs Lisp reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@pytest.fixture
def editor(emacs: str, environment: Mapping[str, str]) -> Iterator[Editor]:
    """Yield a running Emacs with the package; require at the end that no callback failed."""
    editor = Editor(emacs, environment)
    try:
        editor.wait()
        yield editor
        log = editor.said()
    finally:
        editor.end()
    assert editor.tolerates_failures or "callback failed" not in log


def batch(emacs: str, environment: Mapping[str, str], *arguments: str) -> str:
    """Run a batch Emacs that must succeed; return what it said."""
    done = run([emacs, "-Q", "--batch", *arguments], environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def entries(events: list[Json]) -> list[tuple[int, str]]:
    return [
        (event["params"]["seq"], event["params"]["entry"]["message"]["content"])
        for event in events
        if event["method"] == "session/event"
    ]


# -- the package ----------------------------------------------------------------------------------


def test_the_package_compiles_without_a_warning(
    emacs: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    for name in FILES:
        shutil.copy(PACKAGE / name, tmp_path)
    files = [str(tmp_path / name) for name in FILES]
    strict = "(setq byte-compile-error-on-warn t)"
    batch(
        emacs,
        environment,
        "-L",
        str(tmp_path),
        "--eval",
        strict,
        "-f",
        "batch-byte-compile",
        *files,
    )
    assert sorted(path.name for path in tmp_path.glob("*.elc")) == [f"{name}c" for name in FILES]


@pytest.mark.parametrize("name", FILES)
def test_checkdoc_has_nothing_to_say(emacs: str, environment: Mapping[str, str], name: str) -> None:
    look = f"(progn (require 'checkdoc) (checkdoc-file {quoted(str(PACKAGE / name))}))"
    assert batch(emacs, environment, "--eval", look) == ""


def test_an_installed_package_loads_with_its_first_use_and_appends(
    emacs: str,
    environment: Mapping[str, str],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Go the way of a new user: install into an empty folder, then append a region."""
    new_session(environment)
    folder = f"(setq user-emacs-directory {quoted(f'{tmp_path}/')} package-user-dir {quoted(f'{tmp_path}/elpa')})"
    began = time.monotonic()
    install = f"(progn (require 'package) (package-initialize) (package-install-file {quoted(f'{PACKAGE}/')}))"
    batch(emacs, environment, "--eval", folder, "--eval", install)
    use = f"""(progn
      (require 'package) (package-activate-all)
      (princ (list (featurep 'sessiond) (featurep 'sessiond-client) (featurep 'jsonrpc)
        (mapcar (lambda (name) (and (commandp name) (autoloadp (symbol-function name))))
          '(sessiond-list sessiond-tree sessiond-tail sessiond-append sessiond-new))))
      (with-temp-buffer
        (insert "the first one")
        (transient-mark-mode 1) (push-mark (point-min) t t)
        (sessiond-append {quoted(SESSION)}))
      (while (not (string-match-p "stored as entry 1" (or (current-message) "")))
        (accept-process-output nil 0.1)))"""
    words = batch(
        emacs,
        environment,
        *("--eval", folder, "--eval", "(advice-add 'current-message :override (lambda () said))"),
        *("--eval", "(defvar said nil)"),
        *(
            "--eval",
            "(advice-add 'message :before (lambda (&rest a) (setq said (apply #'format a))))",
        ),
        *("--eval", use),
    )
    seconds = time.monotonic() - began
    record_property("seconds from package-install-file to the first shared append", seconds)
    print(f"installed and appended in {seconds:.1f} s")  # noqa: T201
    assert words.startswith("(nil nil nil (t t t t t))")
    assert contents(environment) == ["the first one"]


# -- two clients on one session -------------------------------------------------------------------


def test_it_creates_appends_watches_and_branches_beside_another_client(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    created = editor.eval(
        f'(progn (sessiond-client-create (sessiond-client-shared) "/my/project" :session-id {quoted(SESSION)}'
        ' :title "From Emacs" :then (lambda (result) (push result driver-answers))) nil)'
    )
    assert created is None
    assert editor.until("(car driver-answers)")["created"] is True
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.eval(
        f"(progn (sessiond-client-append (sessiond-client-shared) {quoted(SESSION)} {quoted(TEXT)}) nil)"
    )
    editor.events(1)
    with python_client(environment) as client:
        stream = client.subscribe(SESSION, after=0)
        first = next(iter(stream))
        client.append(SESSION, message={"role": "assistant", "content": "from Python"})
        assert entries(editor.events(2)) == [(1, TEXT), (2, "from Python")]
        root = client.entries(SESSION).entries[0].entry["id"]
        assert isinstance(first, EntryEvent)
        assert first.entry["message"] == {"role": "user", "content": TEXT}
        branched = editor.ask(
            "session/branch",
            f'(list :session_id {quoted(SESSION)} :entry_id {quoted(root)} :head "side")',
        )
        assert branched["result"]["leaf_id"] == root
        assert {head.name: head.leaf_id for head in client.heads(SESSION)}["side"] == root
        client.append(SESSION, head="side", message={"role": "user", "content": "beside"})
        stream.close()
    context = editor.ask(
        "session/build_context", f'(list :session_id {quoted(SESSION)} :head "side")'
    )
    assert [m["content"] for m in context["result"]["messages"]] == [TEXT, "beside"]


def test_the_example_of_the_page_works(editor: Editor, environment: Mapping[str, str]) -> None:
    page = (PACKAGE / "README.md").read_text("utf-8")
    (example,) = [
        block
        for block in re.findall(r"^```elisp\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "sessiond-client-create" in block
    ]
    editor.eval(f"(progn {example.replace('my-session', SESSION)} nil)")
    editor.until('(driver-text "*Messages*")', lambda text: "entries: 0\n1 message" in text)
    assert contents(environment) == ["hi"]


def test_the_functions_for_other_packages_ask_what_they_are_called_after(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with python_client(environment) as client:
        root = client.entries(SESSION).entries[0].entry["id"]

        def call(name: str, arguments: str = quoted(SESSION)) -> Json:
            editor.eval(
                f"""(progn (setq driver-answers nil)
                (sessiond-client-{name} (sessiond-client-shared) {arguments}
                  :then (lambda (result) (push result driver-answers))
                  :catch (lambda (error) (push error driver-answers))) nil)"""
            )
            answer: Json = editor.until("(car driver-answers)")
            return answer

        assert call("open")["session"]["id"] == SESSION
        assert [head["name"] for head in call("heads")["heads"]] == ["main"]
        call("label", f'{quoted(SESSION)} {quoted(root)} "here"')
        assert client.labels(SESSION).labels[0].label == "here"
        assert call("branch", f'{quoted(SESSION)} {quoted(root)} :head "side"')["leaf_id"] == root
        call("append", f'{quoted(SESSION)} "beside" :role "assistant" :head "side"')
        context = call("context", f'{quoted(SESSION)} :head "side"')
        assert [m["role"] for m in context["messages"]] == ["user", "assistant"]
        assert [s["id"] for s in call("list", ':cwd "/my/project"')["sessions"]] == [SESSION]
        assert [s["id"] for s in call("list", ':cwd "/nowhere"')["sessions"]] == []
    waited = editor.eval('(sessiond-client-wait (sessiond-client-shared) "server/ping" nil 5)')
    assert waited["ok"] is True
    error = """(condition-case failure
      (sessiond-client-wait (sessiond-client-shared) "no/such" nil 5)
      (sessiond-error (plist-get (caddr failure) :kind)))"""
    assert editor.eval(error) == "method_not_found"


def test_a_cursor_is_where_another_client_goes_on(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one", "two")
    editor.eval(f"(progn (setq kept (driver-subscribe {quoted(SESSION)} '(:seq 0))) nil)")
    editor.events(2)
    editor.eval(
        "(progn (setq place (sessiond-client-cursor kept)) (sessiond-client-unsubscribe kept))"
    )
    say(environment, "three")
    editor.eval(
        f"""(progn (setq driver-events nil)
        (sessiond-client-subscribe (sessiond-client-new :client-id "other") {quoted(SESSION)}
          (lambda (method params) (push (list :method method :params params) driver-events))
          :after place) nil)"""
    )
    assert entries(editor.events(1)) == [(3, "three")]


def test_the_content_of_a_message_is_in_no_log(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    """Let a callback fail with the content in its error; look into every buffer."""
    editor.tolerates_failures = True
    new_session(environment)
    editor.eval(
        f"""(progn (sessiond-client-subscribe (sessiond-client-shared) {quoted(SESSION)}
          (lambda (_method params) (error "It was %S" params)) :after '(:seq 0)) nil)"""
    )
    say(environment, "a secret")
    editor.until('(driver-text "*Messages*")', lambda text: "a callback failed: error" in text)
    kill_the_daemon(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.events(1)
    found = editor.eval(
        """(seq-filter (lambda (buffer) (with-current-buffer buffer
            (string-match-p "a secret" (buffer-string)))) (buffer-list))"""
    )
    assert found is None
    assert "a secret" not in editor.said()


def test_a_refusal_is_a_plist_with_kind_and_message(editor: Editor) -> None:
    error = editor.ask("session/get", '(list :session_id "no-such-session")')["error"]
    assert (error["code"], error["kind"]) == (-32020, "session_not_found")
    assert "no session of this id" in error["message"]
    assert error["data"]["session_id"] == "no-such-session"


def test_a_daemon_that_cannot_be_started_is_an_error_not_a_hang(editor: Editor) -> None:
    editor.eval('(setq sessiond-program "/nowhere/sessiond")')
    error = editor.ask("session/list", "nil")["error"]
    assert error["kind"] == "cannot_start"


@pytest.mark.parametrize(
    ("control", "number"),
    [("\r\x1f", "9223372036854775807"), ("\0", "123456789012345678901234567890")],
    ids=["with the fast reader", "with the other reader"],
)
def test_values_come_back_as_they_were(
    editor: Editor, environment: Mapping[str, str], control: str, number: str
) -> None:
    new_session(environment)
    kept = (
        '{"role":"user","z":{},"a":[],"n":null,"f":false,"t":true,"x:y":1,"":[[{}]],"text":'
        + json.dumps(TEXT + control, ensure_ascii=False)
        + f',"big":{number},"small":0.1,"nested":{{"b":1,"a":{{"c":[null,{{}}]}}}}}}'
    )
    answer = editor.ask(
        "session/append",
        f"(list :session_id {quoted(SESSION)} :message (sessiond-client--decode {quoted(kept)}))",
    )
    entry_id = answer["result"]["leaf_id"]
    (path,) = Path(environment["SESSIOND_HOME"]).rglob(f"*{SESSION}.jsonl")
    stored = path.read_text("utf-8").split("\n")[-2]

    def spelled(text: str) -> Any:
        """Return JSON with the order of its members and the spelling of its numbers."""
        return json.loads(text, object_pairs_hook=tuple, parse_int=str, parse_float=str)

    assert spelled(kept) in [value for _, value in spelled(stored)]
    back = editor.eval(
        f"""(sessiond-client-encode (plist-get (plist-get (sessiond-client-wait
          (sessiond-client-shared) "session/entry"
          '(:session_id {quoted(SESSION)} :entry_id {quoted(entry_id)}) 5) :entry) :message))"""
    )
    assert spelled(back) == spelled(kept)


def test_a_number_is_a_value_and_what_json_has_no_word_for_is_an_error(editor: Editor) -> None:
    encoded = editor.eval('(sessiond-client-encode (sessiond-client--decode "[1.50,1e2,-0.0]"))')
    assert encoded == "[1.5,100.0,-0.0]"
    half = r'(sessiond-client--decode "\"\\ud83d\"")'
    assert editor.eval(f"(aref {half} 0)") == 0xD83D
    for value in ("1.0e+INF", "0.0e+NaN", half, "'symbol"):
        refused = f"(condition-case nil (sessiond-client-encode (list :a {value})) (error 1))"
        assert editor.eval(refused) == 1


# -- lost connections -----------------------------------------------------------------------------


def test_a_killed_daemon_comes_back_and_nothing_is_missed_or_comes_twice(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.text(TAIL, "one")
    for round_ in range(3):
        kill_the_daemon(environment)
        editor.eval(
            f"(progn (sessiond-client-append (sessiond-client-shared) {quoted(SESSION)} "
            f'"editor {round_}") nil)'
        )
        say(environment, f"meanwhile {round_}", f"after {round_}")
    events = editor.events(10)
    assert [event["params"]["seq"] for event in events if "entry" in event["params"]] == list(
        range(1, 11)
    )
    assert [text for _, text in entries(events)] == contents(environment)
    text = editor.text(TAIL, *contents(environment))
    assert re.findall(r"^(\d+)  user", text, re.MULTILINE) == [str(n) for n in range(1, 11)]


def test_a_stopped_daemon_is_left_and_found_again(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} nil) nil)")
    editor.until("(eq (sessiond-client--state (sessiond-client-shared)) 'ready)")
    before = said([SESSIOND, "status", "--json"], environment)["pid"]
    assert run([SESSIOND, "stop"], environment).returncode == 0
    say(environment, "behind the stop")
    assert entries(editor.events(1)) == [(1, "behind the stop")]
    assert said([SESSIOND, "status", "--json"], environment)["pid"] != before


class Proxy:
    """A socket between Emacs and the daemon: it counts bytes, and may swallow answers."""

    def __init__(self, place: Path, daemon: str) -> None:
        self._daemon = daemon
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self.bytes_sent = 0
        self.swallow = b""
        self.refuse = False
        self.cuts = 0
        self._run(self._accept)

    def _run(self, target: Callable[..., None], *sockets: socket.socket) -> None:
        thread = threading.Thread(target=target, args=sockets)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            if self.refuse:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            self._sockets += [near, far]
            far.connect(self._daemon)
            self._run(self._requests, near, far)
            self._run(self._answers, near, far)

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                self.bytes_sent += len(data)
                far.sendall(data)
            far.shutdown(socket.SHUT_RDWR)

    def _answers(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := far.recv(65536):
                if self.swallow and self.swallow in data:
                    self.swallow = b""
                    self.cuts += 1
                    break
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """End the connections and the threads."""
        for one in list(self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()


@contextmanager
def through_a_proxy(editor: Editor, place: Path, environment: Mapping[str, str]) -> Iterator[Proxy]:
    """Put a proxy between Emacs and the daemon."""
    daemon = said([SESSIOND, "start", "--json"], environment)["socket"]
    proxy = Proxy(place / "proxy", daemon)
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(place / "proxy"))})')
    try:
        yield proxy
    finally:
        proxy.end()


def test_an_append_whose_answer_was_lost_is_stored_once(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        proxy.swallow = b'"duplicate":false'
        answer = editor.ask(
            "session/append",
            f'(list :session_id {quoted(SESSION)} :message (list :role "user" :content "once"))',
        )
        assert proxy.cuts == 1
        assert answer["result"]["duplicate"] is True
    assert contents(environment) == ["once"]


def test_a_branch_whose_answer_was_lost_is_not_sent_again(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        proxy.swallow = b'"head":"side"'
        error = editor.ask(
            "session/branch",
            f'(list :session_id {quoted(SESSION)} :entry_id :null :head "side")',
        )["error"]
        assert proxy.cuts == 1
    assert (error["kind"], error["data"]) == ("connection_lost", {"outcome_unknown": True})
    with python_client(environment) as client:
        assert client.get(SESSION).seq == 2


class ScriptedDaemon:
    """A daemon that says what a test wants: the test reads each request and answers it."""

    def __init__(self, place: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(PATIENCE_SECONDS)
        self._listener.bind(str(place))
        self._listener.listen()
        self._stack = ExitStack()
        self._stack.enter_context(self._listener)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def greet(self) -> None:
        """Take the next connection, and answer its `initialize`."""
        connection = self._listener.accept()[0]
        connection.settimeout(PATIENCE_SECONDS)
        self._connection = self._stack.enter_context(connection)
        self._input = self._stack.enter_context(connection.makefile("rb"))
        greeting = self.read("initialize")
        assert greeting["params"]["client_info"]["name"] == "emacs"
        self.answer(greeting, {})

    def read(self, method: str) -> Json:
        """Read the next request, which has this method."""
        header = self._input.readline()
        assert self._input.readline() == b"\r\n"
        request: Json = json.loads(self._input.read(int(header.split()[1])))
        assert request["method"] == method
        return request

    def say(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._connection.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def answer(self, request: Json, result: Json) -> None:
        self.say(id=request["id"], result=result)

    def refuse(self, request_id: int | None, kind: str, **data: Any) -> None:
        data = {"kind": kind, "retryable": True, **data}
        self.say(id=request_id, error={"code": -32001, "message": "not now", "data": data})

    def hang_up(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def scripted(editor: Editor, place: Path) -> Iterator[ScriptedDaemon]:
    """Yield a daemon that the test plays, for the editor."""
    editor.eval(f'(setenv "SESSIOND_SOCKET" {quoted(str(place / "scripted"))})')
    editor.eval("(setq sessiond-start-daemon nil)")
    with ScriptedDaemon(place / "scripted") as daemon:
        yield daemon


APPEND: Final = (
    f"""(progn (driver-ask "session/append" '(:session_id {quoted(SESSION)} """
    """:message (:role "user" :content "hi"))) nil)"""
)


@pytest.mark.parametrize("kind", ["overloaded", "draining"])
def test_an_append_that_was_refused_for_now_is_sent_again_with_its_id(
    editor: Editor, scripted: ScriptedDaemon, kind: str
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    assert re.fullmatch("[0-9a-f]{32}", first["params"]["entry"]["id"])
    began = time.monotonic()
    scripted.refuse(first["id"], kind, retry_after_ms=400)
    second = scripted.read("session/append")
    assert time.monotonic() - began > 0.35
    assert second["params"] == first["params"]
    scripted.answer(second, {"seq": 1})
    assert editor.until("(car driver-answers)") == {"result": {"seq": 1}}


def test_requests_wait_for_the_next_connection_of_a_daemon_that_drains(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    scripted.say(method="server/draining", params={"retry_after_ms": 700})
    editor.until("(eq (sessiond-client--state (sessiond-client-shared)) 'draining)")
    editor.eval('(progn (driver-ask "server/ping" nil) nil)')
    began = time.monotonic()
    scripted.hang_up()
    scripted.greet()
    assert time.monotonic() - began > 0.6
    again = scripted.read("session/append")
    assert again["params"] == first["params"]
    scripted.answer(again, {"seq": 1})
    scripted.answer(scripted.read("server/ping"), {"ok": True})
    editor.until("(length driver-answers)", lambda count: count == 2)


def test_a_frame_that_was_not_taken_is_sent_over_another_connection(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    editor.eval(APPEND)
    scripted.greet()
    first = scripted.read("session/append")
    scripted.refuse(None, "overloaded")
    scripted.greet()
    assert scripted.read("session/append")["params"] == first["params"]


def test_a_subscription_goes_on_behind_its_last_event(
    editor: Editor, scripted: ScriptedDaemon
) -> None:
    """Close the session under the subscriber, drop the connection, then refuse for good."""
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} nil) nil)")
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"] == {"session_id": SESSION}
    scripted.answer(request, {"epoch": "x", "seq": 4, "leaf_id": "e4", "heads": []})
    scripted.say(method="session/closed", params={"session_id": SESSION, "reason": "repaired"})
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 4, "epoch": "x"}
    scripted.answer(request, {"epoch": "x", "seq": 4, "leaf_id": "e4", "heads": []})
    entry = {"type": "message", "id": "e5", "message": {"role": "user", "content": "five"}}
    event = {"session_id": SESSION, "epoch": "x", "seq": 5, "entry": entry}
    scripted.say(method="session/event", params=event)
    editor.events(1)
    scripted.say(method="session/synced", params={"session_id": SESSION, "seq": 7})
    scripted.say(method="session/unheard_of", params={"session_id": SESSION, "later": [None]})
    editor.until("(length driver-events)", lambda count: count == 3)
    scripted.hang_up()
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 7, "epoch": "x"}
    scripted.answer(
        request, {"epoch": "y", "seq": 1, "leaf_id": "e1", "heads": [], "replaced": "epoch"}
    )
    last = editor.until("(car driver-events)", lambda event: event["method"] == "session/replaced")
    assert last["params"] == {"session_id": SESSION, "epoch": "y", "reason": "epoch"}
    scripted.hang_up()
    scripted.greet()
    request = scripted.read("session/subscribe")
    assert request["params"]["after"] == {"seq": 0, "epoch": "y"}
    data = {"kind": "session_not_found", "retryable": False}
    scripted.say(id=request["id"], error={"code": -32020, "message": "none", "data": data})
    last = editor.until("(car driver-events)", lambda event: event["method"] == "session/closed")
    assert last["params"] == {"session_id": SESSION, "reason": "session_not_found"}


def test_no_child_process_and_no_byte_while_idle(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    with through_a_proxy(editor, place, environment) as proxy:
        for command in ("sessiond-tail", "sessiond-tree"):
            editor.command(command)
        editor.eval("(progn (sessiond-list t) nil)")
        editor.text(TAIL, "one")
        editor.text(TREE, "one")
        editor.text("*sessiond*", "one")
        editor.until(
            "(= 0 (hash-table-count (sessiond-client--requests (sessiond-client-shared))))"
        )
        assert editor.eval("(driver-children)") == ["sessiond"]
        children = Path(f"/proc/{editor.process.pid}/task/{editor.process.pid}/children")
        assert children.read_text() == ""
        # The hint about the first append comes up to a second later, and is answered by a list.
        give_up = time.monotonic() + PATIENCE_SECONDS
        sent = 0
        while proxy.bytes_sent != sent:
            assert time.monotonic() < give_up
            sent = proxy.bytes_sent
            time.sleep(IDLE_SECONDS)
        assert sent > 0


def test_a_reader_that_was_stopped_gets_each_entry_once(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    """Stop Emacs until the daemon drops events for it; the daemon replays them."""
    new_session(environment)
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.until("driver-events")
    os.kill(editor.process.pid, signal.SIGSTOP)
    try:
        with python_client(environment) as client:
            for number in range(24):
                text = f"{number} {'x' * 1_000_000}"
                client.append(SESSION, message={"role": "user", "content": text})
    finally:
        os.kill(editor.process.pid, signal.SIGCONT)
    seqs = editor.until(
        "(mapcar (lambda (e) (list (plist-get e :method) (plist-get (plist-get e :params) :seq)))"
        " (reverse driver-events))",
        lambda seqs: ["session/synced", 24] in seqs,
    )
    assert [seq for method, seq in seqs if method == "session/event"] == list(range(1, 25))
    assert "session/lagged" in [method for method, _ in seqs]


def test_a_late_subscriber_gets_all_and_the_first_one_nothing_twice(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one", "two")
    editor.eval(f"(progn (driver-subscribe {quoted(SESSION)} '(:seq 0)) nil)")
    editor.events(2)
    editor.eval(
        f"""(progn (defvar late nil)
        (sessiond-client-subscribe (sessiond-client-shared) {quoted(SESSION)}
          (lambda (method params) (push (list method (plist-get params :seq)) late))
          :after '(:seq 0)) nil)"""
    )
    say(environment, "three")
    late = editor.until("(reverse late)", lambda late: ["session/event", 3] in (late or []))
    assert [seq for method, seq in late if method == "session/event"] == [1, 2, 3]
    assert [seq for seq, _ in entries(editor.events(3))] == [1, 2, 3]
    assert editor.eval("(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))") == 1


# -- buffers --------------------------------------------------------------------------------------


def test_a_tail_follows_if_point_is_at_the_end(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "first text", "second text")
    editor.command("sessiond-tail")
    text = editor.text(TAIL, "first text", "second text")
    assert re.fullmatch(
        r"1  user  [0-9a-f]{8}\nfirst text\n\n2  user  [0-9a-f]{8}\nsecond text\n\n", text
    )
    editor.eval("(progn (goto-char (point-max)) nil)")
    with python_client(environment) as client:
        root = client.entries(SESSION).entries[0].entry["id"]
        client.append(
            SESSION, head="side", parent_id=root, message={"role": "user", "content": "third text"}
        )
    assert re.search(
        r"^3  user  \w{8}  \[side\]\nthird", editor.text(TAIL, "third text"), re.MULTILINE
    )
    assert editor.eval(f"(with-current-buffer {quoted(TAIL)} (eobp))") is True
    assert editor.eval("(= (window-point) (point-max))") is True
    editor.keys("p p")
    before = editor.eval("(point)")
    say(environment, "fourth text")
    editor.text(TAIL, "fourth text")
    assert editor.eval("(list (point) (window-point))") == [before, before]
    # A window that is not selected follows, too.
    editor.eval("(progn (goto-char (point-max)) (select-window (split-window)) nil)")
    editor.eval('(progn (switch-to-buffer "*scratch*") nil)')
    say(environment, "fifth text")
    editor.text(TAIL, "fifth text")
    window = f"(get-buffer-window {quoted(TAIL)})"
    assert editor.eval(f"(with-selected-window {window} (eobp))") is True


def test_a_tail_keeps_a_bounded_number_of_entries(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, *(f"text {number}" for number in range(8)))
    editor.eval("(setq sessiond-tail-entries-begin 4 sessiond-tail-entries-max 5)")
    editor.command("sessiond-tail")
    assert "text 3" not in editor.text(TAIL, "text 4", "text 7")
    say(environment, "text 8", "text 9")
    text = editor.text(TAIL, "text 9")
    assert re.findall(r"text \d", text) == [f"text {number}" for number in range(5, 10)]
    assert text.startswith("6  user")


def test_a_tail_begins_anew_with_a_replaced_file(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "old one")
    (path,) = Path(environment["SESSIOND_HOME"]).rglob(f"*{SESSION}.jsonl")
    shorter = path.read_bytes().replace(b"old one", b"new one")
    shorter = re.sub(rb'"id":"[0-9a-f]{32}"', b'"id":"another-entry"', shorter)
    say(environment, "old two")
    editor.command("sessiond-tail")
    editor.text(TAIL, "old one", "old two")
    path.with_suffix(".new").write_bytes(shorter)
    path.with_suffix(".new").rename(path)
    kill_the_daemon(environment)
    assert "old" not in editor.text(TAIL, "new one")


def test_a_deleted_session_ends_its_tail(editor: Editor, environment: Mapping[str, str]) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.eval("(progn (sessiond-list t) nil)")
    editor.text("*sessiond*", "one")
    editor.text(TAIL, "one")
    with python_client(environment) as client:
        client.delete(SESSION)
    state = f"(buffer-local-value 'mode-line-process (get-buffer {quoted(TAIL)}))"
    editor.until(state, lambda value: value == ":deleted")
    editor.until('(driver-text "*sessiond*")', lambda text: "one" not in text)
    assert editor.eval("(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))") == 0


def test_a_killed_buffer_ends_its_subscription(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "one")
    editor.command("sessiond-tail")
    editor.text(TAIL, "one")
    editor.command("sessiond-tree")
    editor.text(TREE, "one")
    feeds = "(hash-table-count (sessiond-client--feeds (sessiond-client-shared)))"
    assert editor.eval(feeds) == 1
    editor.eval(f"(progn (kill-buffer {quoted(TAIL)}) nil)")
    say(environment, "two")
    editor.text(TREE, "two")
    editor.eval(f"(progn (kill-buffer {quoted(TREE)}) nil)")
    assert editor.eval(feeds) == 0


def test_the_keys_of_the_tree_move_branch_label_and_show(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, "the root", "the leaf")
    with python_client(environment) as client:
        root, leaf = (row.entry["id"] for row in client.entries(SESSION).entries)
        editor.command("sessiond-tree")
        editor.text(TREE, "the root", "the leaf")
        shown = """(progn (jit-lock-fontify-now) (let (shown) (dotimes (at (1- (point-max)))
          (unless (invisible-p (1+ at)) (push (char-after (1+ at)) shown)))
          (concat (nreverse shown))))"""
        assert editor.eval(shown) == "• user: the root\n▶ user: the leaf\n"
        editor.keys("b side RET", on="the root")
        editor.text(TREE, "side")
        assert [(h.name, h.leaf_id) for h in client.heads(SESSION)] == [
            ("main", leaf),
            ("side", root),
        ]
        editor.keys("b side RET", on="the leaf")
        editor.until(
            '(driver-text "*Messages*")', lambda text: "there is a head side already" in text
        )
        editor.keys("l here SPC it SPC is RET", on="the root")
        editor.text(TREE, "[here it is]")
        editor.keys("m", on="the root")
        editor.text(TREE, "▶ user: the root")
        assert client.heads(SESSION)[0].leaf_id == root
        # The tree follows another client, and point stays at its entry, which goes down a line.
        editor.eval('(driver-go-to "the leaf")')
        client.append(SESSION, message={"role": "assistant", "content": "from Python"})
        editor.text(TREE, "from Python")
        assert editor.eval("(sessiond--tree-entry)") == leaf
    editor.keys("RET", on="the leaf")
    shown = editor.text("*sessiond entry*", "the leaf")
    assert f'"id": "{leaf}"' in shown


def test_a_tree_that_is_too_large_shows_what_is_around_the_leaf(
    editor: Editor, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    say(environment, *(f"text {number}" for number in range(14)))
    editor.eval(
        """(progn (advice-add 'sessiond--tree-draw :around
          (lambda (draw result)
            (if (string-match-p "above" (plist-get result :text)) (funcall draw result)
              (sessiond--tree-failed '(:kind "too_large" :message "Too large") nil)))) nil)"""
    )
    editor.command("sessiond-tree")
    assert "text 2" not in editor.text(TREE, "text 13", "above")


def test_the_list_shows_sessions_and_follows(
    editor: Editor, environment: Mapping[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with python_client(environment) as client:
        client.create(cwd=str(project), session_id=SESSION, title="Ours", persist="immediate")
        client.create(
            cwd="/else", session_id="another-session", title="Theirs", persist="immediate"
        )
        editor.eval(f"(progn (setq default-directory {quoted(f'{project}/')}) (sessiond-list) nil)")
        assert "Theirs" not in editor.text("*sessiond*", "Ours")
        client.create(cwd=str(project), title="Came later", persist="immediate")
        editor.text("*sessiond*", "Came later")
        editor.keys("w")
        editor.text("*sessiond*", "Theirs", "Ours")
        editor.keys("w")
        editor.until('(driver-text "*sessiond*")', lambda text: "Theirs" not in text)
        say(environment, "in the tail")
        editor.keys("RET", on="Ours")
        editor.text(TAIL, "in the tail")
        editor.eval('(progn (switch-to-buffer "*sessiond*") nil)')
        editor.keys("t", on="Ours")
        editor.text(TREE, "in the tail")
        editor.eval('(progn (switch-to-buffer "*sessiond*") nil)')
        editor.keys("+ Made SPC here RET")
        editor.text("*sessiond*", "Made here")
        assert [s.cwd for s in client.list(title="Made here").sessions] == [str(project)]


def test_a_message_buffer_sends_and_cancels(editor: Editor, environment: Mapping[str, str]) -> None:
    new_session(environment)
    editor.command("sessiond-tail")
    editor.until(f"(buffer-local-value 'sessiond--subscription (get-buffer {quoted(TAIL)}))")
    editor.keys("a")
    assert editor.eval("major-mode") == "sessiond-message-mode"
    editor.eval(f"(insert {quoted(TEXT)})")
    editor.keys("C-c C-c")
    editor.text(TAIL, TEXT)
    editor.until('(not (get-buffer "*sessiond message*"))')
    assert contents(environment) == [TEXT]
    editor.command("sessiond-append")
    editor.eval('(insert "not this")')
    editor.keys("C-c C-k")
    assert editor.eval('(get-buffer "*sessiond message*")') is None
    assert contents(environment) == [TEXT]


def test_a_message_that_is_sent_again_after_a_timeout_is_stored_once(
    editor: Editor, place: Path, environment: Mapping[str, str]
) -> None:
    new_session(environment)
    with through_a_proxy(editor, place, environment) as proxy:
        editor.ask("server/ping", "nil")
        # The append is stored; then nothing listens until the editor gives up.
        editor.eval("(setq sessiond-timeout 2 sessiond-start-daemon nil)")
        proxy.swallow = b'"duplicate":false'
        proxy.refuse = True
        editor.command("sessiond-append")
        editor.eval('(insert "once")')
        editor.keys("C-c C-c")
        editor.until('(driver-text "*Messages*")', lambda text: "did not answer in time" in text)
        assert proxy.cuts == 1
        proxy.refuse = False
        editor.eval("(setq sessiond-timeout 30)")
        editor.keys("C-c C-c")
        editor.until('(not (get-buffer "*sessiond message*"))')
    assert contents(environment) == ["once"]


def test_a_refused_message_stays_in_its_buffer(editor: Editor) -> None:
    editor.command("sessiond-append", "no-such-session")
    editor.eval('(insert "kept")')
    editor.keys("C-c C-c")
    editor.until('(driver-text "*Messages*")', lambda text: "no session of this id" in text)
    assert editor.eval("(list buffer-read-only (buffer-string))") == [None, "kept"]


def test_a_session_is_chosen_by_its_title(editor: Editor, environment: Mapping[str, str]) -> None:
    with python_client(environment) as client:
        client.create(cwd="/p", session_id=SESSION, title="Choose me", persist="immediate")
        editor.eval('(progn (sessiond-client-shared) (insert "the region") nil)')
        editor.eval(
            '(progn (switch-to-buffer "scratch") (insert "the region")'
            " (transient-mark-mode 1) (set-mark (point-min)) nil)"
        )
        editor.keys("M-x sessiond-append RET Choose TAB RET")
        editor.until('(driver-text "*Messages*")', lambda text: "stored as entry 1" in text)
    assert contents(environment) == ["the region"]


@pytest.mark.parametrize("mode", MODES)
def test_every_key_of_a_mode_is_told_by_describe_mode(editor: Editor, mode: str) -> None:
    told = editor.eval(
        f"""(with-temp-buffer ({mode}) (describe-mode)
          (with-current-buffer "*Help*" (buffer-string)))"""
    )
    for key in MODES[mode]:
        command = editor.eval(
            f"(with-temp-buffer ({mode}) (let ((c (key-binding (kbd {quoted(key)})))) (and (commandp c) c)))"
        )
        assert command is not None
        assert re.search(rf"^{re.escape(key)}\s+{re.escape(command)}$", told, re.MULTILINE), key


def test_no_key_is_bound_elsewhere(editor: Editor) -> None:
    bound = editor.eval(
        """(let (found) (mapatoms (lambda (symbol)
          (and (string-prefix-p "sessiond" (symbol-name symbol)) (commandp symbol)
            (where-is-internal symbol (list global-map)) (push symbol found)))) found)"""
    )
    assert bound is None


def test_the_page_names_each_command_and_function() -> None:
    page = (PACKAGE / "README.md").read_text("utf-8")
    sources = "".join((PACKAGE / name).read_text("utf-8") for name in FILES)
    public = re.findall(r"^\(cl-defun (sessiond-client-[a-z-]+) ", sources, re.MULTILINE)
    commands = re.findall(r"^;;;###autoload\n\(defun (\S+)", sources, re.MULTILINE)
    assert [name for name in {*public, *commands} if "--" not in name and name not in page] == []


# -- the kit --------------------------------------------------------------------------------------


def test_the_conformance_kit_runs_the_package(emacs: str) -> None:
    command = f"{emacs} -Q --batch -L {PACKAGE} -l {SCRIPTS / 'conformance.el'}"
    code, outcomes = with_daemon("--client", command)
    assert skipped(outcomes) == BELOW_A_CLIENT | OTHER_NUMBERS
    assert (code, sorted(outcomes)) == (0, CASES)
