"""Record the talk with the daemon of an earlier commit, for the tests of this folder.

    git worktree add /tmp/earlier COMMIT
    .venv/bin/python -m tests.versions.record /tmp/earlier

Run it before a change of the wire that moves the version, on the last commit of the version before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import anyio

from tests.kit.patience import eventually
from tests.versions.talk import COMMANDS, RECORDINGS, Talk, run, told

HERE = Path(__file__).resolve().parents[2]


def main(earlier: Path) -> None:
    """Record one daemon with the command line of its own commit, and then with today's."""
    talks = {"earlier": recorded(earlier, earlier), "later": recorded(earlier, HERE)}
    version = next(
        answer["result"]["version"]
        for talk in talks["earlier"].values()
        for request, answer in talk
        if request["method"] == "server/info"
    )
    commit = subprocess.run(
        ["git", "-C", earlier, "rev-parse", "--short=8", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    lines = [
        json.dumps({"side": side, "command": command, "talk": talk}, ensure_ascii=False)
        for side, commands in talks.items()
        for command, talk in commands.items()
    ]
    RECORDINGS.mkdir(exist_ok=True)
    (RECORDINGS / f"{version}-{commit}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def recorded(daemon: Path, commands: Path) -> dict[str, Talk]:
    """Return the talk of each command of one checkout with the daemon of another."""
    python = [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        home, behind, place = Path(folder), Path(folder) / "behind", Path(folder) / "s"
        serving = subprocess.Popen(
            [*python, "-P", "-m", "sessiond", "serve", "--home", home, "--socket", behind],
            env={**environ_of(daemon, home), "PATH": os.environ["PATH"]},
            cwd="/",
        )
        try:
            anyio.run(eventually, behind.exists)
            talks: dict[str, Talk] = {}
            for command in COMMANDS:
                with told(place, behind) as talk:
                    run(python, command, place, environ_of(commands, home))
                place.unlink()
                told_of = json.dumps(talk).replace(folder, "/home/me")
                talks[command] = json.loads(told_of)
        finally:
            serving.terminate()
            serving.wait()
    return talks


def environ_of(checkout: Path, home: Path) -> dict[str, str]:
    """Return the environment in which the code of a checkout runs."""
    paths = os.pathsep.join((os.fspath(checkout), os.fspath(checkout / "clients" / "python")))
    return {"PYTHONPATH": paths, "SESSIOND_HOME": os.fspath(home), "HOME": os.fspath(home)}


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
