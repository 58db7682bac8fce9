"""A running Emacs with the package, driven by emacsclient."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.interop.test_stubs import SESSION, run
from tests.kit.patience import soon

REPOSITORY: Final = Path(__file__).resolve().parents[3]
PACKAGE: Final = REPOSITORY / "clients" / "emacs"
FILES: Final = ["sessiond-client.el", "sessiond.el"]
SCRIPTS: Final = Path(__file__).parent
TAIL: Final = f"*sessiond tail {SESSION}*"
TREE: Final = f"*sessiond tree {SESSION}*"

Json = dict[str, Any]


class Editor:
    """A running Emacs."""

    def __init__(self, emacs: str, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.tolerates_failures = False
        self._log = Path(environment["HOME"], "emacs.log")
        self._answer = Path(environment["HOME"], "answer.json")
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

        def answers() -> bool:
            assert self.process.poll() is None, self.said()
            return self._client("t").returncode == 0

        soon(answers, self.said)

    def _client(self, form: str) -> subprocess.CompletedProcess[str]:
        return run(["emacsclient", "-s", "editor", "--eval", form], self._environment)

    def said(self) -> str:
        """Return what Emacs wrote on its standard error."""
        return self._log.read_text("utf-8", "replace")

    def eval(self, form: str) -> Any:
        """Evaluate a form; return its value."""
        coded = base64.b64encode(form.encode()).decode()
        done = self._client(f'(drive "{coded}" {quoted(str(self._answer))})')
        assert done.returncode == 0, done.stderr
        answer = json.loads(self._answer.read_text("utf-8"))
        assert "error" not in answer, f"{form}: {answer}"
        return answer["value"]

    def until(self, form: str, is_right: Callable[[Any], bool] = bool) -> Any:
        """Wait until the value of a form is right; return the value."""
        found: list[Any] = []

        def look() -> bool:
            found[:] = [self.eval(form)]
            return is_right(found[0])

        soon(look, lambda: f"{form} is {found[0]}")
        return found[0]

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
