"""State and secrets of a real daemon: killed after an answer, and no secret where none belongs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.sessions import SESSION
from tests.processes.harness.daemon import SESSIOND, Daemon, running

pytestmark = pytest.mark.slow

MARKER = "sk-MARKER-4711-c0ffee"


def test_what_was_answered_is_there_after_a_kill(daemon: Daemon) -> None:
    stored: list[int] = []
    for number in range(8):
        with daemon.connect() as link:
            for before in stored:
                assert link.ask("state/get", namespace="n", key=f"k{before}")["value"] == before
                assert (
                    link.ask("secret/get", namespace="n", key=f"k{before}")["value"]
                    == f"{MARKER}{before}"
                )
            link.ask("state/set", namespace="n", key=f"k{number}", value=number)
            link.ask("secret/set", namespace="n", key=f"k{number}", value=f"{MARKER}{number}")
            if number % 3 == 2:
                link.ask("secret/rotate")
            stored.append(number)
            daemon.kill()
        daemon.start()
    with daemon.connect() as link:
        assert len(link.ask("secret/list")["secrets"]) == 8


def test_a_secret_is_in_its_answer_and_nowhere_else(daemon: Daemon, tmp_path: Path) -> None:
    answers: list[Any] = []
    with daemon.connect() as link, daemon.connect() as watching:
        watching.ask("state/subscribe")
        watching.ask("catalog/subscribe")
        answers.extend(
            link.ask("secret/set", namespace="n", key="k", value=text)
            for text in (f"old {MARKER}", MARKER)
        )
        assert link.ask("secret/get", namespace="n", key="k")["value"] == MARKER
        answers.append(link.refusal("secret/set", namespace="n", key="../x", value=MARKER).error)
        answers.append(
            link.refusal("secret/set", namespace="n", key="k", value={"v": MARKER * 4_000}).error
        )
        answers.append(
            link.refusal(
                "secret/set", namespace="n", key="k", value=MARKER, expected_revision=1
            ).error
        )
        answers.append(
            link.refusal("secret/set", namespace="n", key="k", value=MARKER * 9_000).error
        )
        answers.append(link.refusal("secret/sett", namespace="n", key="k", value=MARKER).error)
        answers.append(link.ask("secret/rotate"))
        answers.append(link.ask("secret/list"))
        answers.append(link.ask("state/list"))
        link.ask("state/set", namespace="n", key="k", value="open")
        answers.append(link.ask("state/all", namespace="n"))
        answers.append(link.ask("state/save", namespace="n", path=str(tmp_path / "saved.json")))
        link.create("hello")
        answers.append(link.ask("session/search", query="MARKER"))
        answers.append(link.ask("session/search", query="hello"))
        link.ask("session/export", session_id=SESSION, path=str(tmp_path / "out.jsonl"))
        answers.append(link.ask("server/stats"))
        answers.append(link.ask("server/info"))
        answers.append(link.ask("rpc.discover"))
        link.send(b'{"id":7,"method":"secret/set","params":{"value":"' + MARKER.encode() + b"\n")
        answers.append(link.message())
        answers.append(watching.ask("server/ping"))
    # A second daemon finds the file damaged, a third one the key.
    (file,) = (daemon.profile / "secrets").glob("*.json")
    good, key = file.read_bytes(), next(Path.home().glob(".config/sessiond/keys/*.key"))
    for broken, content in ((file, good.replace(b'"data":"', b'"data":"AAAA')), (key, b"11" * 32)):
        kept = broken.read_bytes()
        assert daemon.end(signal.SIGTERM) == 0
        broken.write_bytes(content)
        daemon.start()
        with daemon.connect() as link:
            answers.append(link.refusal("secret/get", namespace="n", key="k").error)
        broken.write_bytes(kept)
    daemon.restart()
    with daemon.connect() as link:
        assert link.ask("secret/get", namespace="n", key="k")["value"] == MARKER
    doctor = subprocess.run(
        [SESSIOND, "doctor", "--json"], env=daemon.environment, capture_output=True, check=False
    )
    answers.append((doctor.stdout + doctor.stderr).decode())
    assert MARKER not in json.dumps(answers)
    found = [
        path
        for folder in (tmp_path, Path.home(), daemon.home)
        for path in folder.rglob("*")
        if path.is_file() and MARKER.encode() in path.read_bytes()
    ]
    assert found == []
    # The search finds what is there.
    assert any(b'"open"' in path.read_bytes() for path in daemon.profile.glob("state/*.json"))


BUG = f"""
from sessiond.cli import main
from sessiond.state.vault import Vault

def with_a_bug(self, document, key, revision, plaintext):
    assert plaintext == b"{MARKER}"
    raise ValueError("about " + plaintext.decode())

Vault.seal_value = with_a_bug
main()
"""


def test_a_bug_shows_no_secret(socket_path: Path, home: Path) -> None:
    daemon = Daemon(socket_path, home / "data", program=[sys.executable, "-P", "-c", BUG])
    daemon.start()
    try:
        with daemon.connect() as link:
            refused = link.refusal("secret/set", namespace="n", key="k", value=MARKER)
            told = str(refused.error)
        assert "internal" in told
        assert daemon.end(signal.SIGABRT) != 0
        assert MARKER not in told + daemon.said()
        assert '"bug"' in daemon.said()
    finally:
        daemon.discard()


def test_a_key_command_gives_the_key_and_its_failures_are_told(
    socket_path: Path, home: Path
) -> None:
    script = home / "key.sh"
    config = home / "config.toml"
    config.write_text(f'[secrets]\nkey_command = ["sh", "{script}"]\n')
    script.write_text(f"echo {'11' * 32}")
    options = ["--config", str(config)]
    daemon = Daemon(socket_path, home / "data", options=options)
    with running(daemon) as daemon, daemon.connect() as link:
        link.ask("secret/set", namespace="n", key="k", value=MARKER)
        assert not list(home.glob(".config/sessiond/keys/*"))
    for body, reason in (
        ("exit 3", "status 3"),
        ("echo nonsense", "gives no key"),
        (f"echo {'22' * 32}", "wrong_key"),
    ):
        script.write_text(body)
        with running(daemon) as daemon, daemon.connect() as link:
            refused = link.refusal("secret/get", namespace="n", key="k")
            assert reason in str(refused.error)
    script.write_text(f"echo {'22' * 32}; echo {'11' * 32}")
    with running(daemon) as daemon, daemon.connect() as link:
        assert link.ask("secret/get", namespace="n", key="k")["value"] == MARKER
        assert link.ask("secret/rotate") == {"secrets": 1, "keys": 2}
    script.write_text(f"echo {'22' * 32}")
    with running(daemon) as daemon, daemon.connect() as link:
        assert link.ask("secret/get", namespace="n", key="k")["value"] == MARKER


def test_values_of_the_shell_come_by_standard_input(daemon: Daemon) -> None:
    with daemon.connect():
        pass
    environment = {**daemon.environment, "SESSIOND_SOCKET": str(daemon.socket_path)}
    del environment["SESSIOND_HOME"]

    def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SESSIOND, *words],
            env={**os.environ, **environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    pem = "-----BEGIN-----\nx\ty\n-----END-----"
    assert run("secret", "set", "n", "pem", stdin=f"{pem}\n").returncode == 0
    assert run("secret", "get", "n", "pem").stdout == f"{pem}\n"
    wrong = run("secret", "set", "n", "k", MARKER)
    assert (wrong.returncode, MARKER in wrong.stdout + wrong.stderr) == (2, False)
    assert run("secret", "set", "n", "k", stdin="").returncode == 2
    assert run("secret", "get", "n", "none").returncode == 4
    assert run("state", "set", "n", "k", "no json").returncode == 2
    assert run("state", "set", "n", "k", stdin='{"a": 1.50}').returncode == 0
    assert run("state", "get", "n", "k", "--json").stdout.count('{"a": 1.50}') == 1
    assert run("state", "set", "n", "k", "2", "--revision", "0").returncode == 1
    assert run("state", "get", "n", "none").returncode == 4
    assert run("state", "list", "--ttl-ms", "5").returncode == 2
