"""Distributions of this checkout, and environments to install them in, without an index."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

__all__ = ["OFFLINE", "REPOSITORY", "Environment", "output_of", "pip", "wheel"]

REPOSITORY: Final = Path(__file__).resolve().parents[2]
OFFLINE: Final = ("--no-index", "--no-deps", "--no-build-isolation")


def output_of(
    *command: object, at: Path = REPOSITORY, environment: Mapping[str, str] | None = None
) -> str:
    """Return what a command prints that must succeed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip(*words: object, at: Path = REPOSITORY) -> None:
    """Run pip."""
    output_of(sys.executable, "-m", "pip", "--disable-pip-version-check", *words, at=at)


def wheel(source: Path, folder: Path) -> Path:
    """Build the wheel of a checkout."""
    pip("wheel", *OFFLINE, "--wheel-dir", folder, source)
    (made,) = folder.glob("*.whl")
    return made


class Environment:
    """A virtual environment to install in."""

    def __init__(self, folder: Path) -> None:
        """Make one without pip; that of the tests installs in it."""
        venv.create(folder)
        self.bin = folder / "bin"
        self.home = folder
        (self.site,) = (folder / "lib").glob("python*/site-packages")

    def lend_all(self) -> None:
        """Lend the dependencies of this environment.

        They come behind what was installed; the checkout that this environment points to is not lent.
        """
        lent = metadata.distribution("anyio").locate_file("")
        (self.site / "lent.pth").write_text(f"{lent}\n", "utf-8")

    def lend(self, distribution: str) -> None:
        """Lend one distribution of this environment."""
        for file in metadata.files(distribution) or []:
            top = Path(file).parts[0]
            source = Path(str(metadata.distribution(distribution).locate_file(top)))
            if top != ".." and not (self.site / top).exists():
                (self.site / top).symlink_to(source.resolve())

    def pip(self, *words: object, at: Path = REPOSITORY) -> None:
        """Run pip for the environment."""
        pip("--python", self.bin / "python", *words, at=at)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a user whose only programs are these."""
        home = str(self.home)
        return {"HOME": home, "XDG_RUNTIME_DIR": home, "PATH": str(self.bin)}
