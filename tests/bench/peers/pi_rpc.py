"""pi's own RPC mode: one process a session, one JSON object a line, over standard input and output.

Law: commands are bytes before the clock starts. A command is over when its answer is there; the
events that pi sends before the answer are passed over.

    > {"id":"1","type":"set_session_name","name":"…"}
    < {"type":"session_info_changed","name":"…"}
    < {"id":"1","type":"response","command":"set_session_name","success":true}
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tests.bench.harness.errors import BenchError
from tests.bench.harness.processes import Program, last_line, started
from tests.bench.harness.workload import SESSION_ID, pi_header
from tests.bench.peers.pi import NAME, PI, installed_pi

__all__ = ["PiRpc", "append_commands", "name_commands", "pi_rpc"]

EXTENSION: Final = Path(__file__).with_name("pi_append.mjs")
# Nothing of the machine's own pi, and no network.
OPTIONS: Final = (
    *("--offline", "--no-extensions", "--no-skills", "--no-prompt-templates", "--no-themes"),
    *("--no-context-files", "--no-tools", "--extension", str(EXTENSION)),
)
_copies = count(1)


class _Answer(Struct):
    success: bool
    error: str = ""


class PiRpc:
    """A running `pi --mode rpc`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, folder: Path) -> None:
        self._process = process
        self._log = log
        self._folder = folder

    def ask(self, command: bytes) -> None:
        """Have one command done. Raises BenchError."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(command)
            stdin.flush()
            while not (line := stdout.readline()).startswith(b'{"id":'):
                if not line:
                    raise BenchError(f"{NAME} ended: {last_line(self._log)}")
        except OSError as error:
            raise BenchError(f"{NAME} ended: {last_line(self._log)}") from error
        if b'"success":true' not in line:
            answer = msgspec.json.decode(line, type=_Answer)
            raise BenchError(f"{NAME} answered: {answer.error or 'failure'}")

    def timed(self, commands: Sequence[bytes]) -> list[float]:
        """Have commands done one by one; return the microseconds of each."""
        now, ask = time.perf_counter_ns, self.ask
        found = []
        for command in commands:
            start = now()
            ask(command)
            found.append((now() - start) / 1000)
        return found

    @contextmanager
    def copy_of(self, source: Path) -> Iterator[Path]:
        """Make a copy of a session, have pi open the copy, and remove it at the end."""
        path = self._folder / f"pi-rpc-{next(_copies)}.jsonl"
        with source.open("rb") as old, path.open("wb") as new:
            old.readline()
            # pi refuses a session whose folder is not there.
            new.write(pi_header(SESSION_ID, cwd=str(self._folder)))
            shutil.copyfileobj(old, new, 1024 * 1024)
        self.ask(_command(0, {"type": "switch_session", "sessionPath": str(path)}))
        yield path
        path.unlink()


@contextmanager
def pi_rpc(cache: Path, folder: Path, core: int | None) -> Iterator[PiRpc]:
    """Run pi's RPC mode, without a session file of its own. Raises Missing."""
    node, manager = installed_pi(cache)
    home = folder / "pi-rpc-home"
    home.mkdir(exist_ok=True)
    log = folder / "pi-rpc.log"
    program = Program(
        name=PI.name,
        command=[str(node), str(manager.parents[1] / "cli.js"), "--mode", "rpc", *OPTIONS],
        log=log,
        core=core,
        environment={"HOME": str(home), "PI_CODING_AGENT_DIR": str(home / "agent")},
        pipes=True,
    )
    with started(program) as process:
        yield PiRpc(process, log, folder)


def name_commands(bodies: Sequence[bytes]) -> list[bytes]:
    """Return commands of pi that each append an entry with a name as long as a message."""
    return [
        _command(number, {"type": "set_session_name", "name": body.decode()})
        for number, body in enumerate(bodies, 1)
    ]


def append_commands(bodies: Sequence[bytes]) -> list[bytes]:
    """Return commands of our extension that each append an entry with a message in it."""
    return [
        _command(number, {"type": "prompt", "message": f"/append {body.decode()}"})
        for number, body in enumerate(bodies, 1)
    ]


def _command(number: int, words: dict[str, str]) -> bytes:
    return msgspec.json.encode({"id": str(number), **words}) + b"\n"
