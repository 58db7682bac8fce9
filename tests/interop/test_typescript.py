"""The TypeScript declarations compile strictly, with a small client that uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.node import compile_typescript

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(300)]

PROJECT = Path(__file__).with_name("typescript")


def test_the_declarations_and_a_client_of_them_compile(node: Path, node_modules: Path) -> None:
    compile_typescript(node, node_modules, PROJECT)
