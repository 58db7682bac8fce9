"""A user's shell: a home, a folder to work in, a session and files that examples speak of.

Law: a daemon that a command started is ended here, by the pid that it gave; what the
examples take for granted is made here, in the open, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import sessiond_client
from tests.kit.advice import flaws_of
from tests.kit.patience import PATIENCE_SECONDS, soon
from tests.processes.harness.daemon import SESSIOND

__all__ = ["Shell", "user_shell"]

SESSION_ID: Final = "my-session-id"


class Shell:
    """Runs command lines as a user would."""

    def __init__(self, home: Path, command: str = SESSIOND) -> None:
        """Take the program that is called by the name of `sessiond`."""
        self.command = command
        self.folder = home / "project"
        runtime = home / "run"
        runtime.mkdir(mode=0o700)
        self.environment: Mapping[str, str] = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "PATH": f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}",
            "SESSIOND_HOME": str(home / "data"),
            "LC_ALL": "C.UTF-8",
            # A pager of this machine would wait for a key.
            "PAGER": "cat",
        }

    @property
    def profile(self) -> Path:
        """The folder of everything that its daemon stores."""
        return Path(self.environment["SESSIOND_HOME"], "profiles/default")

    def run(self, script: str, *, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a script to its end; each command that its messages name is one of the command line."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        said = [line for line in done.stderr.splitlines() if line.startswith("sessiond: ")]
        assert [flaw for line in said for flaw in flaws_of(line)] == [], script
        return done

    def start(self, *arguments: str, **streams: Any) -> subprocess.Popen[str]:
        """`sessiond` with these arguments, which goes on until it is ended."""
        return subprocess.Popen(
            [SESSIOND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            text=True,
            **streams,
        )

    def output(self, script: str) -> str:
        """Run a script that must succeed; return its output, without the last newline."""
        done = self.run(script)
        assert done.returncode == 0, f"{script}: {done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout.removesuffix("\n")

    def json(self, script: str) -> Any:
        """Run a script that must succeed; return its output, which must be one JSON document."""
        return json.loads(self.output(script))

    def begin(self) -> None:
        """Remove all files and sessions; make an empty folder and the session of the examples."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        place = self.json("sessiond start --json")["socket"]
        with sessiond_client.connect_blocking(place) as client:
            for session_id in self._session_ids():
                client.call("session/delete", session_id=session_id)
                client.call("session/purge", session_id=session_id)
            client.create(
                cwd=str(self.folder), persist="immediate", session_id=SESSION_ID, title="my-session"
            )
            for number, words in enumerate(("Why is it late?", "The cron job."), start=1):
                role = "user" if number == 1 else "assistant"
                entry = {
                    "type": "message",
                    "id": f"entry-{number}",
                    "message": {"role": role, "content": words},
                }
                client.append(SESSION_ID, entry=entry)
            client.export(SESSION_ID, path=str(self.folder / "session.jsonl"))
        message = '{"role":"user","content":"from a file"}\n'
        (self.folder / "message.json").write_text(message, "utf-8")
        (self.folder / "question.txt").write_text("And now?\n", "utf-8")

    def _session_ids(self) -> Iterator[str]:
        """Yield the id of every session in a folder of the profile, the trash included."""
        for path in self.profile.glob("[spat]*/*.jsonl"):
            yield path.stem.partition("_")[2] or path.stem

    def end(self) -> None:
        """End the daemon of this home."""
        status = json.loads(self.run("sessiond status --json || true").stdout)
        if status["running"]:
            os.kill(status["pid"], signal.SIGTERM)
            process = Path("/proc", str(status["pid"]))
            soon(lambda: not process.exists())
        log = self.profile / "daemon.log"
        with suppress(FileNotFoundError):
            assert '"bug"' not in log.read_text("utf-8"), log.read_text("utf-8")


@contextmanager
def user_shell(home: Path, command: str = SESSIOND) -> Iterator[Shell]:
    """Make a shell whose daemon ends with the block, without having met a bug."""
    shell = Shell(home, command)
    try:
        yield shell
    finally:
        shell.end()
