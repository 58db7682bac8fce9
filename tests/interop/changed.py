"""`make clients`: the conformance kit with each client and its main uses, then all tests of what the last commits changed.

    python -m tests.interop.changed [WORDS FOR PYTEST]

All tests of a client or a face of the daemon whose files did not change in the last 30 commits: `make search
PART=interop`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from tests.kit.runs import processor_seconds, touched
from tests.mutants.reach import tree_name

__all__ = ["main"]

ROOT: Final = Path(__file__).resolve().parents[2]
TESTS: Final[Mapping[str, Sequence[str]]] = {
    "clients/emacs": ["emacs"],
    "clients/neovim": ["neovim"],
    "clients/pi": ["pi"],
    "clients/python": [
        "scripted",
        "test_client_alone.py",
        "test_conformance.py::test_the_clients_pass",
        "test_distributions.py",
        "test_python_client_daemon.py",
        "test_python_client_elsewhere.py",
        "test_python_client_leases.py",
        "test_python_client_offer.py",
        "test_python_client_start.py",
    ],
    "clients/python/sessiond_client/openai_agents": ["agents_sdk"],
    "clients/stubs": ["test_stubs.py"],
    "clients/typescript": ["typescript_client", "test_typescript.py"],
    "clients/vscode": ["vscode"],
    "sessiond/browse": ["browse"],
    "sessiond/lsp": ["lsp", "neovim/test_language_server.py", "test_pygls.py"],
    "sessiond/mcp": ["mcp"],
    "tests/conformance": ["test_conformance_mistakes.py"],
}
"""Folders, and the tests below tests/interop that try what is in them."""
OWN: Final = "interop and (search and conformance or not search and not conformance)"
"""Marks of a client's own tests; more than one form of a client is tried by the kit only if it changed."""
SECONDS: Final = 40
"""Seconds of processors after which the rest of the changed clients is left to the search."""
PYTEST: Final = ("-p", "no:randomly", "-n", "auto", "--dist", "worksteal", "--timeout", "600")


def main(words: Sequence[str]) -> int:
    """Run both; return the worst exit status."""
    status = _pytest("conformance and not search", ["tests/interop", "-k", "not node20"], words)
    tree = tree_name()
    # The hash of the tree gives the order: each folder is first at times, and one tree runs the same ones.
    paths = sorted(changed(touched()), key=lambda path: crc32(f"{tree} {path}".encode()))
    _say(f"clients that changed: {' '.join(paths) or 'none'}")
    began = processor_seconds()
    for number, path in enumerate(paths):
        if processor_seconds() - began > SECONDS:
            _say(f"left out, for {SECONDS} s of processors are over: {' '.join(paths[number:])}")
            break
        found = _pytest(OWN, [path], words)
        status = status or found
    return status


def changed(files: set[str]) -> set[str]:
    """Return the tests of the folders that have one of these files."""
    return {
        f"tests/interop/{test}"
        for folder, tests in TESTS.items()
        for test in tests
        if any(file.startswith(f"{folder}/") for file in files)
    }


def _pytest(marks: str, paths: Sequence[str], words: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", *PYTEST, "-m", marks, *words, *paths]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    # No test at all is no failure: all tests of a folder may be left to the search.
    return 0 if status == 5 else status


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
