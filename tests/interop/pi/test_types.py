"""The extension compiles strictly against the types of pi and of the client."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from tests.kit.node import compile_typescript
from tests.kit.pi import node_and_pi

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]


def test_the_extension_compiles(
    absent: Callable[[str], NoReturn], extension: Path, typescript_client: Path, tmp_path: Path
) -> None:
    node, manager = node_and_pi(absent)
    project = shutil.copytree(extension, tmp_path / "pi")
    (tmp_path / "typescript").mkdir()
    shutil.copy(typescript_client / "tsconfig.json", tmp_path / "typescript")
    packages = typescript_client / "node_modules"
    for name, package in {
        "@mariozechner/pi-coding-agent": manager.parents[2],
        "@types/node": packages / "@types" / "node",
    }.items():
        link = project / "node_modules" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(package)
    compile_typescript(node, packages, project)
