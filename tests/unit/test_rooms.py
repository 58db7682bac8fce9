"""Checks of the house: what stands where, and that each name stands once.

Rule: a package's docstring lists its modules and packages, `name.py` or `name/` and a phrase each.
Where a table of contents lists the modules (commands, methods), the table is checked instead.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

from sessiond.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "sessiond"
PACKAGES = sorted(path.parent for path in HOUSE.rglob("__init__.py"))
# Their modules stand in `CONTENTS` of the command line and in `METHODS`.
TABLES = {
    "cli/commands",
    *(
        f"methods/{name}"
        for name in ("catalog", "retention", "rpc", "scope", "secret", "server", "session", "state")
    ),
}

LISTED = re.compile(r"^ *([a-z_]+(?:\.py|/)) +\S", re.MULTILINE)


def room(package: Path) -> str:
    """Return the path of a package as ARCHITECTURE.md names it."""
    return package.relative_to(HOUSE).as_posix()


@pytest.mark.parametrize("package", [one for one in PACKAGES if room(one) not in TABLES], ids=room)
def test_a_package_lists_its_modules_and_no_others(package: Path) -> None:
    tree = ast.parse((package / "__init__.py").read_text("utf-8"))
    listed = LISTED.findall(ast.get_docstring(tree) or "")
    modules = {path.name for path in package.glob("*.py")} - {"__init__.py"}
    names = modules | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert sorted(listed) == sorted(names)


def test_a_methods_path_is_its_name() -> None:
    modules = {path.parent for path in (HOUSE / "methods").rglob("__init__.py")}
    files = {
        path.relative_to(HOUSE / "methods").as_posix()
        for folder in modules
        if folder.name != "_shared"
        for path in folder.glob("*.py")
        if path.name != "__init__.py"
    }
    expected = {f"{method.name.replace('.', '/')}.py" for method in METHODS}
    # `import` is a keyword.
    assert files == {name.replace("import.py", "import_.py") for name in expected}


def test_a_public_class_name_stands_once_in_a_layer() -> None:
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in sorted(HOUSE.rglob("*.py")):
        where = path.relative_to(HOUSE)
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[where.parts[0], node.name].append(where.as_posix())
    assert {name: found for (_, name), found in places.items() if len(found) > 1} == {}


def test_only_modules_that_users_import_say_which_names_are_theirs() -> None:
    found = {
        path.relative_to(HOUSE).parts[0]
        for path in HOUSE.rglob("*.py")
        if re.search(r"^__all__\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert found == {"__init__.py", "testing"}


def test_the_map_names_every_room_and_no_others() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    _, _, behind = page.partition("## Where things are\n")
    section, _, _ = behind.partition("\n## ")
    lines = re.findall(r"^([a-z_/]+)/ .* (\w+\.py)$", section, re.MULTILINE)
    assert [line for line in lines if not (HOUSE / line[0] / line[1]).is_file()] == []
    # Each folder of methods is named by what its methods' names begin with.
    rooms = {room(one) for one in PACKAGES if room(one) != "."} - {
        one for one in TABLES if one.startswith("methods/")
    }
    assert sorted(name for name, _ in lines) == sorted(rooms)
