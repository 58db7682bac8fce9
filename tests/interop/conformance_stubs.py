"""The stubs of clients/stubs as commands of the conformance kit (tests/conformance/README.md).

    python tests/interop/conformance_stubs.py py PYTHON | mjs NODE | sh SHELL

Law: a call is a process of its own, which sends one request by the function that the stub has for
requests; a subscription is the stub's own `watch`. A stub makes a connection for each request, so
a step that needs one connection over several requests is unsupported.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

STUBS: Final = Path(__file__).resolve().parents[2] / "clients" / "stubs"
ENVIRONMENT: Final = {
    **os.environ,
    "SESSIOND_SOCKET": os.environ.get("CONFORMANCE_SOCKET", ""),
    "PYTHONPATH": str(STUBS),
    "PYTHONDONTWRITEBYTECODE": "1",
}
PYTHON_CALL: Final = """
import json, stub, sys
print(json.dumps(next(stub.exchange(sys.argv[1], json.loads(sys.argv[2])))))
"""
NODE_CALL: Final = """
const [folder, method, params] = process.argv.slice(1);
const { call } = await import(`${folder}/stub.mjs`);
try {
  console.log(JSON.stringify(await call(method, JSON.parse(params))));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
"""
# What takes METHOD PARAMS and prints the result, or the error on standard error.
CALLS: Final = {
    "py": ["-c", PYTHON_CALL],
    "mjs": ["--input-type=module", "--eval", NODE_CALL, str(STUBS)],
    "sh": [str(STUBS / "stub.sh"), "call"],
}
OF_ONE_CONNECTION: Final = {
    "catalog/subscribe",
    "session/acquire",
    "session/flush",
    "session/presence",
    "session/signal",
    "session/unsubscribe",
}

Said = dict[str, Any]


class Stub:
    """A stub: the commands that run it, and its watching processes."""

    def __init__(self, kind: str, program: str) -> None:
        self.spells_anew = kind != "sh"
        self.call_command = [program, *CALLS[kind]]
        self.watch_command = [program, str(STUBS / f"stub.{kind}"), "watch"]
        self.feeds: dict[tuple[str, str], Feed] = {}

    def do(self, step: Said) -> Said:
        """Carry out one step."""
        steps: dict[str, Callable[[Said], Said]] = {
            "call": self.call,
            "subscribe": self.subscribe,
            "next": self.next,
            "close": self.close,
        }
        if step["do"] not in steps:
            return {"unsupported": f"no way to do {step['do']}"}
        return steps[step["do"]](step)

    def call(self, step: Said) -> Said:
        """Send one request."""
        # A save point is about the session; without durability a flush is about a subscription.
        is_save_point = step["method"] == "session/flush" and '"durability"' in step["params"]
        if step["method"] in OF_ONE_CONNECTION and not is_save_point:
            return {"unsupported": f"{step['method']} needs a connection that stays"}
        if self.spells_anew and not keeps_its_numbers(step["params"]):
            return {"unsupported": "the JSON of the language spells these numbers in another way"}
        command = [*self.call_command, step["method"], step["params"]]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False)
        if done.returncode == 0:
            return {"answer": f'{{"result":{done.stdout.decode()}}}'}
        return refusal(done.stderr.decode())

    def subscribe(self, step: Said) -> Said:
        """Start a `watch`; the first line is the answer."""
        params = json.loads(step["params"])
        if not params.keys() <= {"session_id", "after"}:
            return {"unsupported": "a stub watches all of a session"}
        # A cursor of null is "from now on".
        cursor = json.dumps(params.get("after"))
        feed = Feed([*self.watch_command, params["session_id"], cursor])
        self.feeds[step["on"], params["session_id"]] = feed
        if not (answer := feed.line()):
            return refusal(feed.last_words())
        began = json.loads(answer)
        if "replaced" in began:
            told = {"session_id": params["session_id"], "epoch": began["epoch"]}
            told["reason"] = began["replaced"]
            feed.unread.append(json.dumps({"method": "session/replaced", "params": told}))
        return {"answer": f'{{"result":{answer}}}'}

    def next(self, step: Said) -> Said:
        """Read the next event."""
        return {"event": self.feeds[step["on"], step["session_id"]].line()}

    def close(self, step: Said) -> Said:
        """End the processes that watch for one connection, or for all."""
        for key in [key for key in self.feeds if step.get("on") in {None, key[0]}]:
            self.feeds.pop(key).close()
        return {}


class Feed:
    """A process that watches, and what it said that was not read yet."""

    def __init__(self, command: list[str]) -> None:
        self.unread: deque[str] = deque()
        self._process = subprocess.Popen(
            command,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Return the next line."""
        assert self._process.stdout is not None
        return self.unread.popleft() if self.unread else self._process.stdout.readline()

    def last_words(self) -> str:
        """Return what a process that has ended said on standard error."""
        return self._process.communicate()[1]

    def close(self) -> None:
        """End the process."""
        with self._process:
            self._process.kill()


def refusal(words: str) -> Said:
    """Return the error answer that a stub tells of on standard error."""
    _, is_json, error = words.rpartition("refused: ")
    if is_json:
        return {"answer": f'{{"error":{error}}}'}
    _, is_python, literal = words.rpartition("RuntimeError: ")
    if is_python:
        return {"answer": json.dumps({"error": ast.literal_eval(literal.strip())})}
    return {"failed": repr(words)}


def keeps_its_numbers(text: str) -> bool:
    """Return whether every number is one that Python and JavaScript write as it was read."""
    numbers: list[str] = []
    json.loads(text, parse_float=numbers.append, parse_int=numbers.append)
    return all(number.isdecimal() and int(number) < 2**53 for number in numbers)


def main() -> None:
    """Carry out the steps that come on standard input."""
    stub = Stub(*sys.argv[1:])
    try:
        for line in sys.stdin:
            print(json.dumps(stub.do(json.loads(line))), flush=True)  # noqa: T201
    finally:
        stub.close({})


if __name__ == "__main__":
    main()
