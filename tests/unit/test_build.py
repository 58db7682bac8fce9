"""The build id: equal for installations of one wheel, another one where the code is another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiond import __version__
from sessiond.build import BUILD, _build_of


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package of two sources."""
    package = tmp_path / "sessiond"
    (package / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/one.py"):
        (package / name).write_text("1\n")
        os.utime(package / name, ns=(1, 1))
    return package


def record(package: Path, digest: str, installer: str) -> str:
    """Write what an installer records of the package, and return the build id."""
    folder = package.parent / f"sessiond-{__version__}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "RECORD").write_text(
        f"../../bin/sessiond,sha256={installer},215\n"
        f"sessiond/__init__.py,sha256={digest},2\n"
        "sessiond/__pycache__/__init__.cpython-311.pyc,,\n"
        f"sessiond_client/__init__.py,sha256={installer},2\n"
    )
    return _build_of(package)


def test_installations_of_one_wheel_have_one_build_and_another_wheel_has_another(
    package: Path,
) -> None:
    assert record(package, "aaa", "x") == record(package, "aaa", "y")
    assert record(package, "aaa", "x") != record(package, "bbb", "x")


def test_a_checkout_has_another_build_after_a_change_of_a_source_alone(package: Path) -> None:
    first = _build_of(package)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "one.pyc").write_text("compiled")
    assert _build_of(package) == first
    (package / "inner" / "one.py").write_text("2\n")
    assert _build_of(package) != first


def test_this_program_has_a_build() -> None:
    assert len(BUILD) == 8
    int(BUILD, 16)
