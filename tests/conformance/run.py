#!/usr/bin/env python3
"""Run the conformance cases against a daemon through a client; print TAP, exit 1 on a failure.

Law 1: this file knows what a step is (README.md), and nothing of a client or of sessiond's
code. What talks to the daemon is the client command: a line of JSON a step, and one back.
Law 2: no mistake of a client ends the run: the case fails and says why. A run that cannot begin
or go on ends with a line `Bail out!` and exit status 2. A traceback is a bug of this file.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
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
SHOWN_CHARS = 80
EXPECTED = ("answer", "answers", "event", "received", "closed")


class Unsupported(Exception):
    """Refusal of a step that the client or the set-up has no way to do."""


class Bail(Exception):
    """End of the whole run; the text says what is wrong and what to do."""


class Daemon:
    """A daemon that this runner starts, so that cases may end it and start it again."""

    def __init__(self, command: str | None, path: str, home: str, config: str) -> None:
        self.command = None if command is None else daemon_command(command, path, home)
        # A key of secrets is made in the configuration folder, and that of the user stays as it is.
        self.environment = {**os.environ, "XDG_CONFIG_HOME": config}
        self.path = path
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon, and wait until it listens. Raises Bail."""
        if self.command is None:
            if not self.is_listening():
                raise Bail(f"no daemon listens on {self.path}: start one, or use --daemon")
            return
        try:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, env=self.environment
            )
        except OSError as error:
            raise Bail(cannot_start("--daemon", self.command, error)) from None
        deadline = time.monotonic() + STEP_SECONDS
        while not self.is_listening():
            if (status := self.process.poll()) is not None:
                raise Bail(
                    f"the daemon command ended with status {status} and never listened on"
                    f" {self.path}: run it by hand to see why: {shlex.join(self.command)}"
                )
            if time.monotonic() > deadline:
                raise Bail(
                    f"the daemon command does not listen on {self.path} after {STEP_SECONDS:g} s:"
                    f" see that it uses {{socket}}: {shlex.join(self.command)}"
                )
            time.sleep(0.01)

    def is_listening(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                return probe.connect_ex(self.path) == 0
            except OSError as error:  # the path is too long for a socket
                raise Bail(
                    f"no socket can be at {self.path}: {error}: give a shorter --socket or TMPDIR"
                ) from None

    def end(self, how: signal.Signals) -> None:
        """End the daemon by a signal. Raises Mismatch if the daemon had to be killed instead."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Mismatch(
                f"the daemon ran on for {STEP_SECONDS:g} s after {how.name}, and was killed"
            ) from None

    def restart(self, how: str) -> None:
        if self.command is None:
            raise Unsupported("the runner did not start this daemon")
        self.end({"kill": signal.SIGKILL, "stop": signal.SIGTERM}[how])
        # The command may have been a program that starts the daemon, and have ended before it.
        deadline = time.monotonic() + STEP_SECONDS
        while self.is_listening():
            if time.monotonic() > deadline:
                raise Mismatch(f"the daemon listens {STEP_SECONDS:g} s after its command has ended")
            time.sleep(0.01)
        self.start()


class Client:
    """The client command; started when it is needed, and again if it ended."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.command = command
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, step: dict[str, Any]) -> dict[str, Any]:
        """Hand over one step; return what the client says. Raises Bail, Mismatch, Unsupported."""
        if self.process is None:
            self.process = self.started()
        said = understood(self.exchange(self.process, json.dumps(step).encode() + b"\n"))
        if "unsupported" in said:
            raise Unsupported(said["unsupported"])
        if "failed" in said:
            raise Mismatch(said["failed"])
        return said

    def started(self) -> subprocess.Popen[bytes]:
        """Start the command. Raises Bail."""
        try:
            return subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # A group of its own, so that no child of the command outlives the command.
                start_new_session=True,
            )
        except OSError as error:
            raise Bail(cannot_start("--client", self.command, error)) from None

    def exchange(self, process: subprocess.Popen[bytes], line: bytes) -> bytes:
        """Write a line; return the line that the client writes. Raises Mismatch if none comes."""
        assert process.stdin is not None
        assert process.stdout is not None
        is_late = threading.Event()

        def give_up() -> None:
            is_late.set()
            kill_group(process)

        watchdog = threading.Timer(STEP_SECONDS, give_up)
        watchdog.start()
        said = b""
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(line)
                process.stdin.flush()
                said = process.stdout.readline()
        finally:
            watchdog.cancel()
        if is_late.is_set():
            raise Mismatch(f"no line from the client in {STEP_SECONDS:g} s{first_of(said)}")
        if not said.endswith(b"\n"):
            raise Mismatch(f"{how_it_ended(process)} without a line for this step{first_of(said)}")
        return said

    def end(self) -> None:
        """End the client: close its input; kill a client that runs on."""
        if self.process is None:
            return
        process, self.process = self.process, None
        try:
            process.communicate(timeout=STEP_SECONDS)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.communicate()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children; do nothing if no process is left of the group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def how_it_ended(process: subprocess.Popen[bytes]) -> str:
    """Return how the output of a client came to its end."""
    try:
        return f"the client ended (status {process.wait(1)})"
    except subprocess.TimeoutExpired:
        return "the client closed its output"


def first_of(said: bytes) -> str:
    """Return the first characters that a client said, for the end of a message."""
    text = said.decode("utf-8", "replace").rstrip("\r\n")
    return f": {text[:SHOWN_CHARS]!r}" if text else ""


def understood(line: bytes) -> dict[str, Any]:
    """Return the object in a line of a client. Raises Mismatch."""
    try:
        said = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise Mismatch(f"the client's line is no UTF-8{first_of(line)}") from None
    except (ValueError, RecursionError):
        raise Mismatch(
            f"the client said no JSON (a line for a person goes to standard error){first_of(line)}"
        ) from None
    if not isinstance(said, dict):
        raise Mismatch(f"the client's line is JSON, but no object{first_of(line)}")
    return said


def told_value(text: Any, key: str) -> Any:
    """Return the value of a member that a client says as JSON text. Raises Mismatch."""
    if not isinstance(text, str):
        raise Mismatch(f"the client's {key} is no JSON text in a string, but JSON itself")
    try:
        return read(text)
    except (ValueError, RecursionError):
        raise Mismatch(
            f"the text of the client's {key} is no JSON{first_of(text.encode('utf-8', 'replace'))}"
        ) from None


def split_command(option: str, command: str) -> list[str]:
    """Return the words of a command. Raises Bail."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Bail(f"{option} is no command: {error}") from None
    if not words:
        raise Bail(f"{option} is empty: give a command")
    return words


def daemon_command(command: str, path: str, home: str) -> list[str]:
    """Return the words of the daemon's command, with the places filled in. Raises Bail."""
    try:
        return split_command("--daemon", command.format(socket=path, home=home))
    except (LookupError, ValueError, AttributeError):
        raise Bail(
            "--daemon has braces other than {socket} and {home}: write any other brace twice"
        ) from None


def cannot_start(option: str, command: list[str], error: OSError) -> str:
    """Return why a command cannot be started, and what to do."""
    return (
        f"{option} cannot be started: {command[0]}: {error.strerror or error};"
        " give the path of a program that may be run, or a name that is on PATH"
    )


def case_paths(names: list[str]) -> list[Path]:
    """Return the files of the named cases, or of all cases. Raises Bail."""
    paths = {path.stem: path for path in sorted((HERE / "cases").glob("*.json"))}
    for name in names:
        if name not in paths:
            near = difflib.get_close_matches(name, paths, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else "each file in cases/ is a case"
            raise Bail(f"there is no case {name}: {hint}")
    return [paths[name] for name in names] or list(paths.values())


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
                match(want, told_value(said[key], key), self.names, key)


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
                with contextlib.suppress(Mismatch):
                    close_connections(client)
                return f"SKIP {reason}"
            except Mismatch as reason:
                client.end()
                return f"step {number}: {reason}"
        try:
            close_connections(client)
        except Mismatch as reason:
            return f"close after the last step: {reason}"
    return None


def close_connections(client: Client) -> None:
    """Have the client close its connections; end a client that has no way to. Raises Mismatch."""
    try:
        client.ask({"do": "close"})
    except Unsupported:
        client.end()
    except Mismatch:
        client.end()
        raise


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
    try:
        return run_cases(parser.parse_args())
    except Bail as reason:
        print(f"Bail out! {reason}", flush=True)
        return 2
    except KeyboardInterrupt:
        print("Bail out! interrupted", flush=True)
        return 130


def run_cases(told: argparse.Namespace) -> int:
    """Run the cases that the command line names; return the exit status. Raises Bail."""
    paths = case_paths(told.case)
    plain = [sys.executable, str(HERE / "wire.py")]
    command = plain if told.client is None else split_command("--client", told.client)
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as home,
        tempfile.TemporaryDirectory(prefix="conformance-") as config,
    ):
        path = told.socket or f"{home}/socket"
        client = Client(
            command, {**os.environ, "CONFORMANCE_SOCKET": path, "CONFORMANCE_FRAMING": told.framing}
        )
        daemon = Daemon(told.daemon, path, home, config)
        failures = 0
        try:
            daemon.start()
            print(f"1..{len(paths)}", flush=True)
            for number, one in enumerate(paths, 1):
                why = run(one, daemon, client, told)
                is_skip = why is not None and why.startswith("SKIP")
                failures += why is not None and not is_skip
                print(
                    f"{'ok' if why is None or is_skip else 'not ok'} {number} - {one.stem}", end=""
                )
                print(f" # {why.encode('unicode_escape').decode()}" if why else "", flush=True)
        finally:
            try:
                client.end()
            finally:
                end_at_last(daemon)
    return 1 if failures else 0


def end_at_last(daemon: Daemon) -> None:
    """End the daemon after the last case. Raises Bail if the daemon had to be killed."""
    try:
        daemon.end(signal.SIGTERM)
    except Mismatch as reason:
        raise Bail(f"{reason}: a daemon ends on SIGTERM") from None


if __name__ == "__main__":
    sys.exit(main())
