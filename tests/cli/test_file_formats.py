"""Commands that need no daemon know every format that can be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from sessiond.cli.offline.file_formats import checked
from sessiond.cli.offline.lines import Line, lines_of
from sessiond.cli.ui.failure import Failure
from sessiond.cli.ui.progress import Steps
from sessiond.model.formats import AGENT_FORMATS, FORMATS, WHOLE_FORMATS
from sessiond.service.store.checks import Verification
from tests.kit.agents import CHATS, CODEX, SAMPLES
from tests.kit.opencode import FOOTER, RENAME, TREE, database

OWN: Final = Path(__file__).parents[1] / "samples"
GEMINI: Final = next(iter(sorted(CHATS.glob("*.jsonl"))))


def store(folder: Path) -> Path:
    return database(folder / "opencode.db") / FOOTER


def old_gemini(folder: Path) -> Path:
    head, *lines = map(json.loads, GEMINI.read_bytes().splitlines())
    path = folder / "session-1.json"
    said = [line for line in lines if "type" in line]
    path.write_text(json.dumps(head | {"messages": said}, indent=1))
    return path


# Makes a whole file of each format, of older versions too.
EXAMPLES: Final[dict[str, list[Callable[[Path], Path]]]] = {
    "native": [lambda _: OWN / "native" / "every-type.jsonl"],
    "pi": [lambda _: OWN / "pi" / "pi.jsonl", lambda _: OWN / "pi" / "pi-v1-linear.jsonl"],
    "operator": [lambda _: OWN / "operator" / "operator.jsonl"],
    "piglet": [lambda _: OWN / "piglet" / "piglet.jsonl"],
    "sharur": [
        lambda _: OWN / "sharur" / "sharur.jsonl",
        lambda _: OWN / "sharur" / "sharur-export.jsonl",
        lambda _: OWN / "sharur" / "sharur-legacy-kind.jsonl",
    ],
    "construct": [lambda _: OWN / "construct" / "session.json"],
    "nova": [lambda _: OWN / "nova" / "state.json"],
    "claude-code": [lambda _: SAMPLES / "claude-branch-compact.jsonl"],
    "codex": [lambda _: next(iter(sorted(CODEX.glob("*.jsonl"))))],
    "gemini-cli": [lambda _: GEMINI, old_gemini],
    "opencode": [store, lambda _: next(iter(TREE.glob("storage/session/*/*.json")))],
}
CASES: Final = [
    pytest.param(name, make, id=f"{name}-{number}")
    for name in (*FORMATS, *WHOLE_FORMATS, *AGENT_FORMATS)
    for number, make in enumerate(EXAMPLES[name])
]


def verified(path: Path) -> Verification:
    return checked(path, Steps("verify"))


def dumped(path: Path) -> list[Line]:
    return [*lines_of(path, with_preview=True)]


@pytest.mark.parametrize(("name", "make"), CASES)
def test_a_whole_file_of_each_format_has_no_problem(
    name: str, make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    found = verified(path)
    assert (found.dialect, found.ok, found.problems) == (name, True, [])
    assert found.entries > 0
    lines = dumped(path)
    assert [line.problem for line in lines if line.problem] == []
    if path.is_file() and path.suffix == ".jsonl":
        assert found.lines == len(lines) == len(path.read_bytes().splitlines())
        assert lines[-1].offset + lines[-1].size == path.stat().st_size


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini-cli"])
def test_a_damaged_line_of_an_agent_has_its_own_number(name: str, tmp_path: Path) -> None:
    lines = EXAMPLES[name][0](tmp_path).read_bytes().splitlines(keepends=True)
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(b"".join([*lines[:3], b'{"broken\n', *lines[3:]]))
    found = verified(path)
    assert (found.dialect, found.ok, [one.line for one in found.problems]) == (name, False, [4])
    assert [line.line for line in dumped(path) if line.problem] == [4]


def test_the_damage_of_a_document_is_told(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_bytes(b'{"id": "a", "turns": [1]}')
    assert [one.kind for one in verified(path).problems] == ["bad_header"]
    assert len(dumped(path)) == 1


def test_a_store_of_several_sessions_names_one(tmp_path: Path) -> None:
    path = database(tmp_path / "opencode.db")
    for look in (verified, dumped):
        with pytest.raises(Failure) as failure:
            look(path)
        named = str(failure.value.then).rpartition(" ")[2]
        assert Path(named) in {path / FOOTER, path / RENAME}
        assert verified(Path(named)).ok
