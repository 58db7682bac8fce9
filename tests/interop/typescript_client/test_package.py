"""The package that `npm pack` makes installs into a fresh project and type-checks strictly, and its README is true."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.node import TYPESCRIPT, compile_typescript, run_npm
from tests.kit.patience import PATIENCE_SECONDS
from tests.processes.harness.daemon import SESSIOND

pytestmark = [pytest.mark.slow, pytest.mark.interop, pytest.mark.timeout(180)]

REPOSITORY = Path(__file__).resolve().parents[3]
CONFIGURATION = {
    "compilerOptions": {
        "strict": True,
        "skipLibCheck": False,
        "exactOptionalPropertyTypes": True,
        "target": "es2022",
        "module": "nodenext",
        "outDir": "out",
        "types": ["node"],
    },
    "include": ["*.ts"],
}


@pytest.fixture
def project(
    tmp_path: Path, node: Path, typescript_client: Path, machine_environment: Mapping[str, str]
) -> Path:
    """Return a fresh project with the packed client and the types of Node."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}\n', "utf-8")
    (project / "tsconfig.json").write_text(json.dumps(CONFIGURATION), "utf-8")
    (packed,) = typescript_client.glob("*.tgz")
    run_npm(["install", "--offline", str(packed)], project, node, machine_environment)
    types = project / "node_modules" / "@types"
    types.symlink_to(typescript_client / "node_modules" / "@types")
    (project / "node_modules" / "undici-types").symlink_to(
        typescript_client / "node_modules" / "undici-types"
    )
    return project


def test_the_examples_of_the_readme_compile_strictly_and_run(
    project: Path, node: Path, node20: Path, typescript_client: Path, home: Path
) -> None:
    page = (TYPESCRIPT / "README.md").read_text("utf-8")
    front = (REPOSITORY / "README.md").read_text("utf-8")
    examples = re.findall(r"```ts\n(.*?)```", page + front, re.DOTALL)
    for number, example in enumerate(examples):
        (project / f"example{number}.ts").write_text(example, "utf-8")
    compile_typescript(node, typescript_client / "node_modules", project)
    environment = {**os.environ, "SESSIOND_COMMAND": SESSIOND, "SESSIOND_HOME": str(home / "own")}
    try:
        said = [
            subprocess.run(
                [node20, project / "out" / f"example{number}.js"],
                cwd=project,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=True,
            ).stdout
            for number in range(len(examples))
        ]
    finally:
        subprocess.run([SESSIOND, "stop"], env=environment, check=False, timeout=PATIENCE_SECONDS)
    assert said[:3] == ["1 message\n", "there is no such session\n", ""]
    assert "'hi'" in said[3]


def test_the_package_has_the_built_client_and_its_types_alone(project: Path) -> None:
    package = project / "node_modules" / "sessiond-client"
    kinds = {path.name.split(".", 1)[1] for path in package.rglob("*") if path.is_file()}
    assert kinds == {"js", "d.ts", "json", "md"}
    assert "dependencies" not in json.loads((package / "package.json").read_text("utf-8"))


def test_the_example_agent_compiles_strictly(node: Path, typescript_client: Path) -> None:
    compile_typescript(node, typescript_client / "node_modules", typescript_client / "examples")


def test_the_lock_file_names_no_address() -> None:
    text = (TYPESCRIPT / "package-lock.json").read_text("utf-8")
    assert "resolved" not in text
    assert "://" not in text
