"""The Python client works with anyio and msgspec alone, in the one distribution that has it."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from tests.kit.distributions import OFFLINE, REPOSITORY, Environment, output_of, wheel
from tests.processes.harness.daemon import Daemon

pytestmark = [pytest.mark.slow, pytest.mark.interop]

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


def test_it_works_without_the_dependencies_of_the_daemon(server: Daemon, tmp_path: Path) -> None:
    server.connect().close()
    alone = Environment(tmp_path / "alone")
    alone.pip("install", *OFFLINE, wheel(REPOSITORY, tmp_path))
    for needed in ("anyio", "idna", "msgspec", "sniffio", "typing_extensions"):
        try:
            alone.lend(needed)
        except metadata.PackageNotFoundError:
            continue  # another version of the others does without it
    # Another folder of programs: that of the environment has sessiond.
    empty = {**alone.variables, "PATH": str(tmp_path)}
    said = output_of(
        alone.bin / "python", "-I", "-c", PROGRAM, server.socket_path, environment=empty
    )
    assert "there is no sessiond to start" in said


def test_the_distribution_installs_the_command_and_the_client(tmp_path: Path) -> None:
    """README's `pip install .` works, with dependencies lent instead of downloaded."""
    there = Environment(tmp_path / "installed")
    there.pip("install", *OFFLINE, wheel(REPOSITORY, tmp_path))
    there.lend_all()
    version = output_of(there.bin / "sessiond", "--version", environment=there.variables)
    told = f"sessiond, version {re.escape(metadata.version('sessiond'))}, build [0-9a-f]{{8}}"
    assert re.fullmatch(told, version.strip())
    code = "import sessiond, sessiond_client; print(sessiond.__file__, sessiond_client.__file__)"
    places = output_of(there.bin / "python", "-I", "-c", code, environment=there.variables).split()
    assert [Path(place).parent.parent for place in places] == [there.site, there.site]
