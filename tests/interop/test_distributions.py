"""Distributions over one another: a removal takes the client from none that stays, or the mend is named."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.kit.distributions import OFFLINE, REPOSITORY, Environment, wheel

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

# The distribution of 0.1.0 that owned the client, too.
CLIENT: Final = """
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "sessiond-client"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["anyio>=4.16", "msgspec>=0.22"]

[tool.hatch.build.targets.wheel]
packages = ["sessiond_client"]
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what the distribution is built from."""
    copy = tmp_path_factory.mktemp("distributions") / "checkout"
    for name in ("sessiond", "clients/python/sessiond_client"):
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, copy / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, copy)
    return copy


@pytest.fixture(scope="module")
def wheels(checkout: Path) -> dict[str, Path]:
    """Return the distribution of today, and both of 0.1.0, by short names."""
    older, client = checkout.with_name("older"), checkout.with_name("client")
    shutil.copytree(checkout, older)
    version = older / "sessiond" / "__init__.py"
    text = re.sub(r'__version__ = ".*"', '__version__ = "0.1.0"', version.read_text("utf-8"))
    version.write_text(text, "utf-8")
    shutil.copytree(checkout / "clients/python/sessiond_client", client / "sessiond_client")
    (client / "pyproject.toml").write_text(CLIENT, "utf-8")
    sources = {"today": checkout, "older": older, "client": client}
    return {
        name: wheel(source, checkout.with_name(f"{name}-wheel")) for name, source in sources.items()
    }


def asks(there: Environment) -> tuple[int, str]:
    """Return how a command ends that asks a daemon where none runs, and what it says."""
    done = subprocess.run(
        [there.bin / "sessiond", "--no-start", "list"],
        env=there.variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "order",
    [
        ("today",),
        ("older", "today"),
        ("client", "today"),
        ("older", "client", "today"),
        ("client", "older", "today"),
        ("today", "client"),
    ],
    ids="-".join,
)
def test_an_upgrade_keeps_the_client_and_a_removal_is_mended_by_the_command_that_is_named(
    checkout: Path, wheels: dict[str, Path], tmp_path: Path, order: Sequence[str]
) -> None:
    there = Environment(tmp_path / "there")
    there.lend_all()
    for name in order:
        there.pip("install", "--upgrade", *OFFLINE, wheels[name])
    status, said = asks(there)
    assert (status, "no daemon" in said) == (3, True), said
    if "client" in order:
        there.pip("uninstall", "--yes", "sessiond-client")
        status, said = asks(there)
        assert status == 1, said
        has_traceback = "Traceback" in said
        assert not has_traceback
        named = re.search(r"in the checkout of sessiond run: (.*)", said)
        assert named is not None, said
        # The environment has no pip: that of the tests stands for it.
        program, *words = shlex.split(named[1])
        assert (program, words[:2]) == (str(there.bin / "python"), ["-m", "pip"])
        there.pip(*words[2:], "--no-index", "--no-build-isolation", at=checkout)
        status, said = asks(there)
        assert (status, "no daemon" in said) == (3, True), said
    there.pip("uninstall", "--yes", "sessiond")
    assert [*there.site.glob("sessiond*/**/*.py")] == []


def test_one_distribution_of_the_checkout_has_each_package() -> None:
    projects = [
        path
        for path in REPOSITORY.glob("**/pyproject.toml")
        if not {".venv", "node_modules", ".bench"} & set(path.relative_to(REPOSITORY).parts)
    ]
    assert projects == [REPOSITORY / "pyproject.toml"]


def test_what_the_pages_make_in_a_checkout_is_ignored() -> None:
    made = [
        *("ENV/pyvenv.cfg", "venv/pyvenv.cfg", "env/pyvenv.cfg", ".venv/pyvenv.cfg"),
        *("clients/typescript/sessiond-client-0.1.1.tgz", "clients/typescript/dist/index.js"),
        *("clients/typescript/node_modules/x/index.js", "clients/vscode/dist/sessiond.vsix"),
    ]
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", *made],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == made
