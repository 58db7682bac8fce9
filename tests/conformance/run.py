#!/usr/bin/env python3
"""Run the conformance cases against a daemon through a client; print TAP, exit 1 on a failure.

Law: this file knows what a step is (README.md), and nothing of a client or of sessiond's
code. What talks to the daemon is the client command: a line of JSON a step, and one back.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from pattern import Mismatch, fill, match, read, write

HERE = Path(__file__).resolve().parent
STEP_SECONDS = 30.0
EXPECTED = ("answer", "answers", "event", "received", "closed")


class Unsupported(Exception):
    """Refusal of a step that the client or the set-up has no way to do."""


class Daemon:
    """A daemon that this runner starts, so that cases may end it and start it again."""

    def __init__(self, command: str | None, path: str, home: str, config: str) -> None:
        self.command = shlex.split(command.format(socket=path, home=home)) if command else None
        # A key of secrets is made in the configuration folder, and that of the user stays as it is.
        self.environment = {**os.environ, "XDG_CONFIG_HOME": config}
        self.path = path
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.command is None:
            return
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, env=self.environment
        )
        deadline = time.monotonic() + STEP_SECONDS
        while not self.is_listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"Bail out! no daemon on {self.path} from {self.command}")
            time.sleep(0.01)

    def is_listening(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(self.path) == 0

    def end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(STEP_SECONDS)

    def restart(self, how: str) -> None:
        if self.command is None:
            raise Unsupported("the runner did not start this daemon")
        self.end({"kill": signal.SIGKILL, "stop": signal.SIGTERM}[how])
        self.start()


class Client:
    """The client command; started when it is needed, and again if it ended."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.command = command
        self.environment = environment
        self.process: subprocess.Popen[str] | None = None

    def ask(self, step: dict[str, Any]) -> Any:
        """Hand over one step; what the client says to it."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(STEP_SECONDS, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps(step) + "\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline() or '{"failed": "no word from the client"}')
        except BrokenPipeError:
            said = {"failed": "the client ended"}
        finally:
            watchdog.cancel()
        if "unsupported" in said:
            raise Unsupported(said["unsupported"])
        if "failed" in said:
            raise Mismatch(said["failed"])
        return said

    def end(self) -> None:
        if self.process is not None:
            self.process.communicate(timeout=STEP_SECONDS)
            self.process = None


class Case:
    """A case: the values of its names, and its steps, done one after the other."""

    def __init__(self, daemon: Daemon, client: Client, folder: Path) -> None:
        self.daemon = daemon
        self.client = client
        unique = uuid.uuid4().hex[:12]
        self.names: dict[str, Any] = {"unique": unique, "cwd": f"/conformance/{unique}"}
        self.names["folder"] = str(folder)

    def play(self, step: dict[str, Any]) -> None:
        """Do one step; raises Mismatch or Unsupported."""
        expected = {key: value for key, value in step.items() if key in EXPECTED}
        step = fill({key: step[key] for key in step.keys() - expected.keys()}, self.names)
        if "restart" in step:
            self.daemon.restart(step["restart"])
        elif "file" in step:
            Path(step["file"]).write_text(step["text"], "utf-8")
        else:
            if step["do"] in {"call", "subscribe"}:
                expected.setdefault("answer", {"error": {"$absent": True}})
            said = self.client.ask({key: as_told(key, value) for key, value in step.items()})
            for key, want in expected.items():
                if key not in said:
                    raise Mismatch(f"no {key}, but {said}")
                match(want, read(said[key]), self.names, key)


def as_told(key: str, value: Any) -> Any:
    """Return a member of a step for the client; values for the daemon become JSON text."""
    if key == "calls":
        return [{name: as_told(name, item) for name, item in call.items()} for call in value]
    return write(value) if key in {"params", "options", "message"} else value


def run(path: Path, daemon: Daemon, client: Client, told: argparse.Namespace) -> str | None:
    """Play one case; None if it went well, else why not, or `SKIP` and why."""
    case = read(path.read_bytes())
    for key in ("framing", "store"):
        if case.get(key, getattr(told, key)) != getattr(told, key):
            return f"SKIP it is about {case[key]}"
    if not daemon.is_listening():
        daemon.start()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        playing = Case(daemon, client, Path(folder))
        for number, step in enumerate(case["steps"], 1):
            try:
                playing.play(step)
            except Unsupported as reason:
                client.ask({"do": "close"})
                return f"SKIP {reason}"
            except Mismatch as reason:
                client.end()
                return f"step {number}: {reason}"
        client.ask({"do": "close"})
    return None


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Run the conformance cases; see README.md.")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", help="the socket of a daemon that runs")
    where.add_argument(
        "--daemon", help="a command that starts one: {socket} and {home} are filled in"
    )
    parser.add_argument("--client", help="the command of the client (default: the plain wire)")
    parser.add_argument("--framing", default="ndjson", choices=["ndjson", "content-length"])
    parser.add_argument("--store", default="files", choices=["files", "database"])
    parser.add_argument("case", nargs="*", help="names of cases (default: all)")
    told = parser.parse_args()
    paths = [HERE / "cases" / f"{name}.json" for name in told.case] or sorted(HERE.glob("cases/*"))
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as home,
        tempfile.TemporaryDirectory(prefix="conformance-") as config,
    ):
        path = told.socket or f"{home}/socket"
        command = (
            shlex.split(told.client) if told.client else [sys.executable, str(HERE / "wire.py")]
        )
        client = Client(
            command, {**os.environ, "CONFORMANCE_SOCKET": path, "CONFORMANCE_FRAMING": told.framing}
        )
        daemon = Daemon(told.daemon, path, home, config)
        failures = 0
        try:
            daemon.start()
            print(f"1..{len(paths)}")
            for number, one in enumerate(paths, 1):
                why = run(one, daemon, client, told)
                is_skip = why is not None and why.startswith("SKIP")
                failures += why is not None and not is_skip
                print(
                    f"{'ok' if why is None or is_skip else 'not ok'} {number} - {one.stem}", end=""
                )
                print(f" # {why.encode('unicode_escape').decode()}" if why else "", flush=True)
        finally:
            client.end()
            daemon.end(signal.SIGTERM)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
