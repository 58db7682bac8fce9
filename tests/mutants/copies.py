"""A copy of this checkout whose code is what runs in it, also in the processes that it starts.

Law: nothing of the checkout is changed. The copy has a venv of its own, with the packages
of this one by name and itself as `sessiond`; before it is used it says whose code it runs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.mutants.bugs import Bug, Code

__all__ = ["REPOSITORY", "Copy", "copy"]

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv", ".bench", "bench-results", ".hypothesis", "*_cache", "node_modules"
)
_PATIENCE: Final = re.compile(r"(?m)^(_?PATIENCE_SECONDS: Final = )\d+(\.0)?$")
_PATIENT: Final = ("tests/kit/patience.py", "sessiond/testing/wire.py")
_WAIT_SECONDS: Final = 10
_SCRIPT: Final = "#!{python}\nimport sys\nfrom sessiond.cli import main\nsys.exit(main())\n"
_WHOSE: Final = (
    "import sessiond, sessiond_client; print(sessiond.__file__, sessiond_client.__file__)"
)


class Copy:
    """A copy of the repository, in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "sessiond"
        self.python = self.tree / ".venv" / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The folder of the packages of the copy's venv."""
        here = Path(sysconfig.get_paths()["purelib"])
        return self.python.parents[1] / here.relative_to(sys.prefix)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the copy's processes, without any way back to the checkout."""
        leads_back = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "TMPDIR"}
        kept = {name: value for name, value in os.environ.items() if name not in leads_back}
        shared = (REPOSITORY / ".." / "shared").resolve()
        return {"SESSIOND_FIXTURES": str(shared), **kept}

    def make(self) -> None:
        """Copy the files, and make a venv that imports them."""
        shutil.copytree(REPOSITORY, self.tree, ignore=_LEFT_OUT, symlinks=True)
        home = self.python.parents[1]
        here = Path(sysconfig.get_paths()["purelib"])
        packages = self.packages
        packages.mkdir(parents=True)
        self.python.parent.mkdir()
        self.python.symlink_to(Path(sys.executable).resolve())
        shutil.copy(Path(sys.prefix, "pyvenv.cfg"), home)
        for there in here.iterdir():
            if there.name != "_sessiond.pth":
                (packages / there.name).symlink_to(there)
        (packages / "_sessiond.pth").write_text(f"{self.tree}\n{self.tree / 'clients/python'}\n")
        command = self.python.with_name("sessiond")
        command.write_text(_SCRIPT.format(python=self.python))
        command.chmod(0o700)

    def require_own_code(self) -> None:
        """Asked from elsewhere, it must be this copy's code that answers."""
        asked = subprocess.run(
            [self.python, "-P", "-c", _WHOSE],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for path in asked.stdout.split():
            assert Path(path).is_relative_to(self.tree), f"{path} runs instead of the copy"

    def shorten_waits(self) -> None:
        """Let the copy's tests wait for less long: a bug that makes a test hang costs that wait."""
        for name in _PATIENT:
            path = self.tree / name
            text, count = _PATIENCE.subn(rf"\g<1>{_WAIT_SECONDS}", path.read_text("utf-8"))
            assert count == 1, f"{name} has no patience of its own any more"
            self.write(path, text)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let the copy's tests wait as long as everywhere, for the time of a block."""
        for name in _PATIENT:
            self.write(self.tree / name, Path(REPOSITORY, name).read_text("utf-8"))
        try:
            yield
        finally:
            self.shorten_waits()

    @contextmanager
    def planted(self, bug: Bug) -> Iterator[None]:
        """Plant a bug for the time of a block."""
        code = Code(self.tree)
        changed = bug.planted(code)
        for path, text in changed.items():
            self.write(path, text)
        try:
            yield
        finally:
            for path in changed:
                self.write(path, code.text(path))

    def write(self, source: Path, text: str) -> None:
        """Change a file, and forget what it was compiled to."""
        source.write_text(text, "utf-8")
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.pyc"):
            compiled.unlink()

    def end_processes(self) -> None:
        """Kill all processes of the copy: a killed attacker leaves its children running."""
        mark = os.fsencode(self.tree)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if mark in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)


@contextmanager
def copy() -> Iterator[Copy]:
    """Yield a copy that exists during the block."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        made = Copy(Path(folder).resolve())
        made.make()
        try:
            yield made
        finally:
            made.end_processes()
