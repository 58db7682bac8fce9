"""The package of the VS Code extension, and what its manifest and its page say.

The extension's logic adds no protocol of its own: it subscribes by `follow` of the TypeScript client,
which runs the conformance kit (typescript_client/test_conformance.py).
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from pathlib import Path

import pytest

from tests.interop.test_stubs import said
from tests.kit.node import EXTENSION

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(240)]


def test_the_package_has_one_bundle_and_no_packages(node: Path, vscode_extension: Path) -> None:
    with zipfile.ZipFile(vscode_extension / "dist" / "sessiond.vsix") as package:
        names = {name.removeprefix("extension/") for name in package.namelist()}
        bundle = package.read("extension/dist/extension.js").decode()
    assert {"package.json", "readme.md", "dist/extension.js", "media/sessions.svg"} <= names
    assert not [name for name in names if "node_modules" in name or name.endswith((".ts", ".map"))]
    required = set(re.findall(r'require\("([^"]+)"\)', bundle)) - {"vscode"}
    foreign = "names => names.filter((name) => !require('module').isBuiltin(name))"
    code = f"console.log(JSON.stringify(({foreign})({json.dumps(sorted(required))})))"
    assert said([str(node), "-e", code], os.environ) == []


def test_the_lock_file_names_no_address() -> None:
    lock = (EXTENSION / "package-lock.json").read_text("utf-8")
    assert "://" not in lock
    assert re.findall(r'"resolved": "(.*)"', lock) == ["../typescript"]


def test_every_command_of_the_manifest_is_registered_and_told_by_the_page() -> None:
    manifest = json.loads((EXTENSION / "package.json").read_text("utf-8"))
    named = {one["command"]: one["title"] for one in manifest["contributes"]["commands"]}
    # F1 finds commands by these words, too.
    assert {one["category"] for one in manifest["contributes"]["commands"]} == {"sessiond"}
    source = (EXTENSION / "src" / "editor" / "extension.ts").read_text("utf-8")
    acts = source[source.index("const acts") : source.index("subscriptions.push(")]
    registered = set(re.findall(r"^ {4}(\w+):", acts, re.MULTILINE))
    assert {name.removeprefix("sessiond.sessions.") for name in named} == registered - {"openAt"}
    page = (EXTENSION / "README.md").read_text("utf-8")
    assert [title for title in named.values() if f"**{title}**" not in page] == []
    settings = manifest["contributes"]["configuration"]["properties"]
    assert [name for name in settings if f"`{name}`" not in page] == []


def test_the_logic_knows_no_editor() -> None:
    for path in (EXTENSION / "src" / "core").glob("*.ts"):
        assert not re.search(r'from "vscode"|editor/', path.read_text("utf-8")), path.name
