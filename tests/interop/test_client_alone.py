"""The Python client works with anyio and msgspec alone, in the one distribution that has it."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

REPOSITORY = Path(__file__).resolve().parents[2]

# Every module, one call, and a start that finds nothing to start.
PROGRAM = """
import importlib, pkgutil, sys
import sessiond_client

for module in pkgutil.iter_modules(sessiond_client.__path__, "sessiond_client."):
    if not module.name.endswith(".openai_agents"):  # an extra
        importlib.import_module(module.name)
assert not [name for name in sys.modules if name.split(".")[0] == "sessiond"]
with sessiond_client.connect_blocking(sys.argv[1]) as client:
    assert client.ping()["ok"]
try:
    sessiond_client.connect_blocking().__enter__()
except sessiond_client.ConnectionLost as error:
    print(error)
"""


def run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env=environment or None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lend(distribution: str, site: Path) -> None:
    """Put a distribution of this environment, and what it needs, into another one."""
    for file in metadata.files(distribution) or []:
        top = Path(file).parts[0]
        source = Path(str(metadata.distribution(distribution).locate_file(top)))
        if top != ".." and not (site / top).exists():
            (site / top).symlink_to(source.resolve())


def test_it_works_without_the_dependencies_of_the_daemon(server: Daemon, tmp_path: Path) -> None:
    server.connect().close()
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "wheel", *offline, "--wheel-dir", tmp_path, REPOSITORY)
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "alone")
    python = tmp_path / "alone" / "bin" / "python"
    run(*pip, "--python", python, "install", *offline, wheel)
    (site,) = (tmp_path / "alone" / "lib").glob("python*/site-packages")
    for needed in ("anyio", "idna", "msgspec", "sniffio", "typing_extensions"):
        try:
            lend(needed, site)
        except metadata.PackageNotFoundError:
            continue  # another version of the others does without it
    empty = {"PATH": str(tmp_path), "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    said = run(python, "-I", "-c", PROGRAM, server.socket_path, **empty)
    assert "there is no sessiond to start" in said


def test_the_distribution_installs_the_command_and_the_client(tmp_path: Path) -> None:
    """README's `pip install .` works, with dependencies lent instead of downloaded."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    run(*pip, "wheel", *offline, "--wheel-dir", tmp_path, REPOSITORY)
    (wheel,) = tmp_path.glob("sessiond-*.whl")
    venv.create(tmp_path / "installed")
    folder = tmp_path / "installed" / "bin"
    run(*pip, "--python", folder / "python", "install", *offline, wheel)
    (site,) = (tmp_path / "installed" / "lib").glob("python*/site-packages")
    # Behind what was installed; the checkout that this environment points to is not lent.
    lent = metadata.distribution("anyio").locate_file("")
    (site / "lent.pth").write_text(f"{lent}\n", "utf-8")
    home = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": str(folder)}
    version = run(folder / "sessiond", "--version", **home)
    told = f"sessiond, version {re.escape(metadata.version('sessiond'))}, build [0-9a-f]{{8}}"
    assert re.fullmatch(told, version.strip())
    code = "import sessiond, sessiond_client; print(sessiond.__file__, sessiond_client.__file__)"
    places = run(folder / "python", "-I", "-c", code, **home).split()
    assert [Path(place).parent.parent for place in places] == [site, site]
