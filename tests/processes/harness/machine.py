"""A machine of a test's own: its home, its runtime folder, and `sessiond` commands run in them.

Law: all daemons that commands leave running are ended with the test. A daemon that
`sessiond stop` cannot end is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.kit.link import Link
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND

__all__ = ["LIST", "Machine"]

LIST: Final = b'{"id":1,"method":"session/list"}\n'


class Machine:
    """The environment of its processes, and what they made."""

    def __init__(self, home: Path, runtime: Path, command: str = SESSIOND) -> None:
        """Take the program that `run` calls in place of `sessiond`."""
        self.command = command
        self.home = home
        self.runtime = runtime
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(runtime),
            "TMPDIR": str(runtime),
        }

    @property
    def socket(self) -> Path:
        """Socket of the default profile's daemon."""
        return self.runtime / "sessiond" / "default.sock"

    @property
    def data(self) -> Path:
        """The home of its sessions."""
        return self.home / ".local" / "share" / "sessiond"

    @property
    def profile(self) -> Path:
        """The folder of the default profile."""
        return self.data / "profiles" / "default"

    @property
    def log(self) -> str:
        """Return the log of the background daemons."""
        path = self.profile / "daemon.log"
        return path.read_text("utf-8") if path.exists() else ""

    def spawn(
        self, *arguments: object, program: Sequence[str] = (SESSIOND,), **settings: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command, of `sessiond` or of a program that stands for it; the test waits for its end."""
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            [*program, *map(str, arguments)], env=self.environment, **{**streams, **settings}
        )

    def run(self, *arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end; return its result."""
        return subprocess.run(
            [self.command, *map(str, arguments)],
            env=self.environment,
            input=data,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def tell(self, *arguments: object, status: int = 0) -> Any:
        """Run a command that must end with this status; return its JSON document."""
        done = self.run(*arguments, "--json")
        assert done.returncode == status, done
        return json.loads(done.stdout)

    def connect(self) -> Link:
        """Return a connection to the daemon of the default profile."""
        return Link(self.socket, alive=lambda: None)

    def served(self) -> list[dict[str, Any]]:
        """Return the profiles that have a daemon."""
        found = self.tell("profiles")["profiles"]
        return [profile for profile in found if profile["running"]]
