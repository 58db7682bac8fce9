"""The bound of the search index: the oldest outputs leave first, then the oldest arguments, then the oldest messages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sessiond.catalog.fulltext import Addition, Indexed, Text, TextIndex
from sessiond.catalog.matching import match_of
from sessiond.errors import StorageError
from sessiond.model.searched import Part, Searched
from sessiond.visible import index_state
from tests.kit.limits import set_limits

SESSIONS = 30
PARTS = (Part.MESSAGE, Part.ARGUMENTS, Part.OUTPUT)
WORDS = {Part.MESSAGE: 200, Part.ARGUMENTS: 200, Part.OUTPUT: 800}


def texts(number: int) -> list[Text]:
    """Return a message, the arguments of a call and its output, with words of their own; all of the time `number`."""
    dice = random.Random(number)
    found = list[Text]()
    for seq, part in enumerate(PARTS):
        hay = " ".join(f"w{dice.randrange(10**9)}" for _ in range(WORDS[part]))
        said = Searched(part, f"needle{part}x{number} {hay}", "tool", "Bash", f"c{number}")
        found.append(Text(seq, f"e{seq}", said, time=1 + number))
    return found


def put(index: TextIndex, number: int) -> None:
    index.put([Addition(f"session-{number}", Indexed("epoch", 2, 100), texts(number), anew=True)])


def there(index: TextIndex, part: Part) -> list[int]:
    """Return the numbers of the sessions whose text of a part is found."""
    found = list[int]()
    for number in range(SESSIONS):
        match = match_of(f"needle{part}x{number}")
        assert match is not None
        if index.find(match, {f"session-{number}"}.__and__, 1):
            found.append(number)
    return found


def last(count: int) -> list[int]:
    return [*range(SESSIONS - count, SESSIONS)]


def trim(index: TextIndex) -> int:
    return sum(1 for _ in index.trimmed())


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIndex]:
    set_limits(monkeypatch, REMOVED_ROWS_MAX=2)
    index = TextIndex(tmp_path / "search.sqlite", pytest.fail)
    # The newest first, as sessions are read.
    for number in reversed(range(SESSIONS)):
        put(index, number)
    yield index
    index.close()


def counts(index: TextIndex) -> Sequence[int]:
    return [len(there(index, part)) for part in PARTS]


def test_the_oldest_outputs_leave_first(index: TextIndex, tmp_path: Path) -> None:
    assert counts(index) == [SESSIONS] * 3
    assert trim(index) == 0
    before = index.size()
    index.bytes_max = before * 9 // 10
    assert trim(index) > 0
    outputs = there(index, Part.OUTPUT)
    assert counts(index) == [SESSIONS, SESSIONS, len(outputs)]
    assert 0 < len(outputs) < SESSIONS
    assert outputs == last(len(outputs))
    assert index.size() <= index.bytes_max
    assert index.cuts() == {Part.OUTPUT: 1 + outputs[0]}
    index.close()
    assert (tmp_path / "search.sqlite").stat().st_size <= index.bytes_max


@pytest.mark.parametrize("share", [0.5, 0.35, 0.2])
def test_arguments_follow_and_messages_are_last(index: TextIndex, share: float) -> None:
    index.bytes_max = int(index.size() * share)
    trim(index)
    assert index.size() <= index.bytes_max
    messages, arguments, outputs = (there(index, part) for part in PARTS)
    assert outputs == []
    assert arguments == last(len(arguments))
    assert messages == last(len(messages))
    # A part is cut only where nothing of the part before it is left.
    assert len(messages) == SESSIONS or not arguments
    assert (len(messages) < SESSIONS) is (Part.MESSAGE in index.cuts())


def test_what_is_older_is_not_taken_in_again_and_what_is_newer_is(index: TextIndex) -> None:
    index.bytes_max = index.size() * 9 // 10
    trim(index)
    outputs = there(index, Part.OUTPUT)
    put(index, 0)
    put(index, SESSIONS - 1)
    assert there(index, Part.OUTPUT) == outputs
    assert counts(index)[:2] == [SESSIONS, SESSIONS]


def test_a_greater_bound_lets_the_sessions_be_read_again(index: TextIndex) -> None:
    index.bytes_max = index.size() * 9 // 10
    trim(index)
    outputs = there(index, Part.OUTPUT)
    index.take_back()
    assert all(mark.epoch for mark in index.indexed().values())
    index.bytes_max *= 2
    index.take_back()
    lacking = {name for name, mark in index.indexed().items() if not mark.epoch}
    assert lacking == {f"session-{n}" for n in range(SESSIONS) if n not in outputs}
    assert index.cuts() == {}
    put(index, 0)
    assert there(index, Part.OUTPUT) == [0, *outputs]


def test_a_text_without_room_on_the_disk_is_refused_and_the_index_can_be_asked(
    index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_limits(monkeypatch, INDEX_FREE_BYTES=1 << 60)
    with pytest.raises(StorageError, match="almost full") as refused:
        put(index, SESSIONS)
    assert refused.value.data()["errno"] == "ENOSPC"
    assert counts(index) == [SESSIONS] * 3


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({}, None),
        ({"read": 3, "to_read": 10}, "3 of 10 files read"),
        (
            {"unsearched": [{"texts": "outputs", "before": "2026-02-03T10:00:00.001Z"}]},
            "not searched: outputs from before 2026-02-03",
        ),
        ({"problem": "the disk is full"}, "not current: the disk is full"),
    ],
)
def test_status_and_doctor_say_what_the_index_lacks(
    figures: dict[str, object], said: str | None
) -> None:
    usual: dict[str, object] = {"read": None, "to_read": None, "problem": None, "unsearched": []}
    assert index_state(usual | figures) == said
    assert index_state(None) is None
