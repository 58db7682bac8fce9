"""The state of a reading as bytes: another process reads on as this one would, and the bytes call nothing."""

from __future__ import annotations

import collections
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessiond.dialects.agents import AGENTS
from sessiond.dialects.agents.gemini_cli import document_lines
from sessiond.dialects.agents.kept_state import kept_state, state_of
from sessiond.dialects.agents.own_entries import native_line
from sessiond.dialects.agents.tables.ids import IdTable
from sessiond.dialects.agents.transcript import Taken, Transcript
from sessiond.model.formats import AgentFormatName
from tests.kit.agent_roots import SAMPLES

NAMES: Final[dict[str, AgentFormatName]] = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini-cli",
}
FILES: Final = [
    path
    for path in sorted(SAMPLES.rglob("*.json*"))
    if path.relative_to(SAMPLES).parts[0].partition("-")[0].partition(".")[0] in NAMES
    and path.suffix in {".json", ".jsonl"}
    and path.name not in {"session_index.jsonl", "projects.json"}
    and not path.name.endswith(".meta.json")
]


def lines_of(path: Path) -> tuple[AgentFormatName, list[bytes]]:
    name = NAMES[path.relative_to(SAMPLES).parts[0].partition("-")[0]]
    data = path.read_bytes()
    made = document_lines(data) if path.suffix == ".json" else None
    return name, list(made) if made is not None else data.split(b"\n")[:-1]


def said(found: Taken) -> Any:
    line = None if found.entry is None else native_line(found.entry, found.bridge, found.damage)
    return found.line, found.raw, line, found.why


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_reading_goes_on_at_each_line_as_if_it_had_read_all_lines(path: Path) -> None:
    name, lines = lines_of(path)
    for cut in range(len(lines) + 1):
        whole = Transcript(AGENTS[name].reading())
        for _ in whole.take(lines[:cut], is_last=True):
            pass
        state = whole.state()
        assert state is not None
        later = Transcript(AGENTS[name].reading())
        later.resume(state_of(kept_state(state)))
        expected = [said(one) for one in whole.take(lines[cut:], is_last=True)]
        assert [said(one) for one in later.take(lines[cut:], is_last=True)] == expected
        assert later.reading.origin == whole.reading.origin


def test_a_reading_knows_the_last_time_when_it_goes_on() -> None:
    """A record that was cut off may quote older ones, which are told by their time."""
    line = (
        b'{"type":"user","uuid":"b","parentUuid":null,"sessionId":"s",'
        b'"timestamp":"2026-01-15T10:00:00.000Z","message":{"role":"user","content":"x"}}'
    )
    older = line.replace(b'"b"', b'"a"').replace(b"2026", b"2025")
    cut = line.replace(b'"b"', b'"c"').replace(b'"x"}}', b'"y"},"toolUseResult":{"was":') + older
    whole = Transcript(AGENTS["claude-code"].reading())
    assert len(list(whole.take([line], is_last=True))) == 1
    later = Transcript(AGENTS["claude-code"].reading())
    later.resume(state_of(kept_state(whole.state())))
    (expected,) = whole.take([cut], is_last=True)
    assert expected.entry is None
    assert [said(one) for one in later.take([cut], is_last=True)] == [said(expected)]


def test_the_samples_are_of_all_agents_with_files() -> None:
    assert {lines_of(path)[0] for path in FILES} == set(NAMES.values())


def test_no_state_is_told_while_a_record_waits() -> None:
    line = b'{"type":"user","uuid":"b","parentUuid":"a","sessionId":"s","message":{"role":"user","content":"x"}}'
    above = line.replace(b'"uuid":"b","parentUuid":"a"', b'"uuid":"a","parentUuid":null')
    transcript = Transcript(AGENTS["claude-code"].reading(), lambda: [above])
    assert list(transcript.take([line], is_last=False)) == []
    assert transcript.state() is None
    assert len(list(transcript.take([above], is_last=True))) == 2
    assert transcript.state() is not None


def test_the_table_of_ids_of_another_process_finds_its_ids(tmp_path: Path) -> None:
    """Hashes differ from process to process."""
    program = """
import sys
from pathlib import Path
from sessiond.dialects.agents.kept_state import kept_state
from sessiond.dialects.agents.tables.ids import IdTable
table = IdTable()
for number in range(1000):
    table.add(f"id {number}")
Path(sys.argv[1]).write_bytes(kept_state(table))
"""
    path = tmp_path / "state"
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", program, path], check=True, env={"PYTHONHASHSEED": seed}
        )
        table = state_of(path.read_bytes())
        assert isinstance(table, IdTable)
        assert [table.last(f"id {number}") for number in range(1000)] == [*range(1, 1001)]
        assert [table.name_of(number) for number in (0, 1, 1000)] == ["", "id 0", "id 999"]
        assert "id 1000" not in table
        assert table.add("id 1000") == 1001
        assert table.last("id 1000") == 1001


class Calls:
    """An object whose bytes call a function."""

    def __init__(self, called: Any, *arguments: Any) -> None:
        self.reduced = called, arguments

    def __reduce__(self) -> Any:
        return self.reduced


STRANGE: Final[dict[str, Callable[[], bytes]]] = {
    "a function": lambda: pickle.dumps(Calls(print, "called")),
    "a function of a module of the readings": lambda: pickle.dumps(
        Calls(native_line, b"", None, None)
    ),
    "a module that a reading imports": lambda: (
        b"\x80\x04\x8c\x20sessiond.dialects.agents.reading\x8c\x0emsgspec.Struct\x93."
    ),
    "another class": lambda: pickle.dumps(collections.OrderedDict(a=1)),
    "half a state": lambda: kept_state([1, 2, 3])[:-3],
    "no state": lambda: b"no state",
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("strange", STRANGE)
def test_bytes_that_are_no_state_are_refused(
    strange: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="no state"):
        state_of(STRANGE[strange]())
    assert capsys.readouterr().out == ""


def test_no_module_is_imported_for_bytes_that_are_refused() -> None:
    assert "antigravity" not in sys.modules
    with pytest.raises(ValueError, match="no state"):
        state_of(b"\x80\x04\x8c\x0bantigravity\x8c\x04anti\x93.")
    assert "antigravity" not in sys.modules
